"""Editing a task before it is tried again."""

from __future__ import annotations

import msgspec

from perdure.domain.checks import METADATA_BYTES, PAYLOAD_BYTES, TIMEOUT_RANGE, check_range
from perdure.domain.drafts import RevisionDraft
from perdure.domain.errors import Problem
from perdure.domain.model import Executor
from perdure.domain.rules import Rule, lane_of
from perdure.engine.intake import Policies, PolicyReader, check_action, encode_json
from perdure.store.actions import replace_start_action
from perdure.store.changes import Row
from perdure.webhooks.egress import Egress


def revise(
    row: Row, draft: RevisionDraft, policies: Policies, egress: Egress
) -> tuple[tuple[object, ...], list[Problem]]:
    """What a stored task becomes: payload, metadata, timeout, actions, policy and lane; and what is wrong with it."""
    problems: list[Problem] = []
    check_range(problems, "timeout", draft.timeout, *TIMEOUT_RANGE)
    metadata, lane = _metadata(problems, row, draft)
    payload = row["payload"]
    if draft.payload is not None:
        payload = encode_json(problems, "payload", draft.payload, PAYLOAD_BYTES)
    policy = row["retry_policy"]
    if draft.retry is not None:
        policy = PolicyReader(policies).read(problems, "retry", draft.retry)
    timeout = row["timeout"] if draft.timeout is None else draft.timeout
    return (payload, metadata, timeout, _actions(problems, row, draft, egress), policy, lane), problems


def _metadata(problems: list[Problem], row: Row, draft: RevisionDraft) -> tuple[str | None, int]:
    if draft.metadata is None:
        return row["metadata"], row["lane"]
    rules = [Rule.from_json(rule) for rule in msgspec.json.decode(row["rules"])]
    needed = {name for rule in rules for name in rule.matcher.fields}
    missing = sorted(needed - set(draft.metadata))
    problems.extend(Problem("metadata", f"a rule of the task needs the field {name!r}") for name in missing)
    metadata = encode_json(problems, "metadata", draft.metadata, METADATA_BYTES)
    return metadata, lane_of(row["executor"], row["namespace"], row["kind"], rules, draft.metadata)


def _actions(problems: list[Problem], row: Row, draft: RevisionDraft, egress: Egress) -> str:
    actions: str = row["actions"]
    if draft.on_start is None:
        return actions
    if row["executor"] == Executor.WORKER:
        problems.append(Problem("on_start", "cannot be given to a task that a Python worker runs"))
        return actions
    start = check_action(problems, "on_start", draft.on_start, "Start", None, egress)
    return replace_start_action(actions, msgspec.json.encode(start))
