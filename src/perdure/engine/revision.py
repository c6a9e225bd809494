"""Editing a task before it is tried again."""

from __future__ import annotations

import msgspec

from perdure.domain.checks import METADATA_BYTES, PAYLOAD_BYTES, TIMEOUT_RANGE, check_range
from perdure.domain.destinations import destination_of
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
    """What a stored task becomes: payload, metadata, timeout, actions, policy, lane and destination; and what is
    wrong with it."""
    problems: list[Problem] = []
    check_range(problems, "timeout", draft.timeout, *TIMEOUT_RANGE)
    actions = _actions(problems, row, draft, egress)
    destination = row["destination"]
    if draft.on_start is not None:
        destination = destination_of(draft.on_start.params.url)
    metadata, lane = _metadata(problems, row, draft, destination)
    payload = row["payload"]
    if draft.payload is not None:
        payload = encode_json(problems, "payload", draft.payload, PAYLOAD_BYTES)
    policy = row["retry_policy"]
    if draft.retry is not None:
        policy = PolicyReader(policies).read(problems, "retry", draft.retry)
    timeout = row["timeout"] if draft.timeout is None else draft.timeout
    return (payload, metadata, timeout, actions, policy, lane, destination), problems


def _metadata(problems: list[Problem], row: Row, draft: RevisionDraft, destination: str) -> tuple[str | None, int]:
    """The task's metadata, and the lane that follows from it and from the destination."""
    rules = [Rule.from_json(rule) for rule in msgspec.json.decode(row["rules"])]
    text, metadata = row["metadata"], draft.metadata
    if metadata is None:
        metadata = msgspec.json.decode(text) if text else {}
    else:
        needed = {name for rule in rules for name in rule.matcher.fields}
        missing = sorted(needed - set(metadata))
        problems.extend(Problem("metadata", f"a rule of the task needs the field {name!r}") for name in missing)
        text = encode_json(problems, "metadata", metadata, METADATA_BYTES)
    return text, lane_of(row["executor"], row["namespace"], row["kind"], rules, metadata, destination)


def _actions(problems: list[Problem], row: Row, draft: RevisionDraft, egress: Egress) -> str:
    actions: str = row["actions"]
    if draft.on_start is None:
        return actions
    if row["executor"] == Executor.WORKER:
        problems.append(Problem("on_start", "cannot be given to a task that a Python worker runs"))
        return actions
    start = check_action(problems, "on_start", draft.on_start, "Start", None, egress)
    return replace_start_action(actions, msgspec.json.encode(start))
