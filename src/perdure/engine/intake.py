"""From what people hand in to what is stored: checks everything, then builds the rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from perdure.domain.checks import (
    DEFAULT_NAMESPACE,
    DEFAULT_TIMEOUT,
    JSON_DEPTH,
    METADATA_BYTES,
    PAYLOAD_BYTES,
    check_batch,
    condition_of,
    parse_rules,
    start_moment,
)
from perdure.domain.destinations import NOWHERE, destination_of
from perdure.domain.drafts import ActionDraft, BatchDraft, MatcherDraft, TaskDraft, WebhookDraft
from perdure.domain.errors import Invalid, Problem
from perdure.domain.model import Batch, Completion, Executor, Link, Submission, Task, Twin
from perdure.domain.policy import RetryLimits, RetryPolicy
from perdure.domain.policy_parsing import parse_policy
from perdure.domain.rules import lane_of
from perdure.domain.states import VALUES, Status
from perdure.store.changes import Row
from perdure.webhooks.egress import Egress

VERBS = {verb.lower(): verb for verb in ("Get", "Post", "Put", "Patch", "Delete")}
LONGEST_WEBHOOK_SECS = 60.0
BODY_BYTES = PAYLOAD_BYTES
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_encode = msgspec.json.Encoder().encode
_decode_tasks = msgspec.json.Decoder(list[TaskDraft]).decode


@dataclass(frozen=True, slots=True)
class Policies:
    """Retry policies that the configuration knows: limits, named ones, defaults by kind and namespace."""

    limits: RetryLimits = field(default_factory=RetryLimits)
    named: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    kinds: Mapping[str, RetryPolicy] = field(default_factory=dict)
    namespaces: Mapping[str, RetryPolicy] = field(default_factory=dict)

    def default_for(self, kind: str, namespace: str) -> RetryPolicy | None:
        return self.kinds.get(kind) or self.namespaces.get(namespace)


class Intake:
    """Turns drafts into submissions, or refuses them with every broken rule at once."""

    def __init__(self, new_id: Callable[[], str], policies: Policies, egress: Egress) -> None:
        self._new_id = new_id
        self.policies = policies
        self.egress = egress

    def prepare(self, draft: BatchDraft, now: datetime) -> Submission:
        """The rows of a batch; raises Invalid."""
        problems = check_batch(draft)
        reader = PolicyReader(self.policies)
        if len(problems) == 1 and problems[0].field == "tasks":
            raise Invalid(problems)
        namespace = (draft.namespace or "").strip() or DEFAULT_NAMESPACE
        context = encode_json(problems, "context", draft.context, PAYLOAD_BYTES)
        policy = reader.read(problems, "retry", draft.retry)
        batch_id = self._new_id()
        batch = Batch(
            id=batch_id,
            name=draft.name,
            namespace=namespace,
            context=context,
            retry_policy=policy,
            definition=_encode(draft.tasks).decode() if policy else None,
            retry_of=None,
            attempt=0,
            created_at=now,
            retry_state="open" if policy else None,
            execution_id=batch_id if policy else None,
        )
        tasks = [self._task(problems, position, task, batch, reader) for position, task in enumerate(draft.tasks)]
        if problems:
            raise Invalid(problems)
        return _wire(batch, tasks, draft.tasks)

    def repeat(self, row: Row, now: datetime) -> Submission:
        """Another execution of a batch: its saved definition and context, the next attempt number."""
        submission = self.prepare(BatchDraft(_decode_tasks(row["definition"]), row["name"], row["namespace"]), now)
        submission.twins = {}
        submission.batch.context = row["context"]
        submission.batch.retry_of = row["id"]
        submission.batch.attempt = row["retry_count"] + 1
        return submission

    def _task(
        self, problems: list[Problem], position: int, draft: TaskDraft, batch: Batch, reader: PolicyReader
    ) -> Task:
        path = f"tasks[{position}]"
        now = batch.created_at
        metadata = draft.metadata or {}
        # The rules were checked with the batch; here they are only read.
        rules = parse_rules([], path, draft.rules, metadata, draft.expected_count) if draft.rules else []
        executor = Executor.WORKER if draft.on_start is None else Executor.WEBHOOK
        actions = _actions(problems, path, draft, self.egress)
        destination = NOWHERE if draft.on_start is None else destination_of(draft.on_start.params.url)
        run_at = start_moment(problems, path, draft, now)
        if draft.retry is None:
            policy = _policy_json(self.policies.default_for(draft.kind, batch.namespace))
        else:
            policy = reader.read(problems, f"{path}.retry", draft.retry)
        return Task(
            id=self._new_id(),
            batch_id=batch.id,
            position=position,
            key=draft.id,
            name=draft.name,
            kind=draft.kind,
            namespace=batch.namespace,
            lane=lane_of(executor, batch.namespace, draft.kind, rules, metadata, destination),
            destination=destination,
            status=Status.PENDING,
            paused=False,
            parked=False,
            delayed=run_at is not None and run_at > now,
            linked=False,
            waits=0,
            executor=executor,
            completion=Completion.RESPONSE if draft.completion == "response" else Completion.CALLBACK,
            timeout=DEFAULT_TIMEOUT if draft.timeout is None else draft.timeout,
            priority=draft.priority or 0,
            payload=encode_json(problems, f"{path}.payload", draft.payload, PAYLOAD_BYTES),
            metadata=encode_json(problems, f"{path}.metadata", draft.metadata, METADATA_BYTES),
            rules="[]" if not rules else _encode([rule.to_json() for rule in rules]).decode(),
            actions=actions,
            expected_count=draft.expected_count,
            success=0,
            failures=0,
            dead_end_barrier=bool(draft.dead_end_barrier),
            retry_policy=policy,
            attempt=0,
            retry_count=0,
            next_retry_at=None,
            run_at=run_at,
            created_at=now,
            started_at=None,
            ended_at=None,
            last_updated=now,
            failure_reason=None,
            error_class=None,
            result=None,
            locked_by=None,
        )


class PolicyReader:
    """Reads the policies of one submission; most of its tasks share one, which is then read once."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._known: dict[bytes, str | None] = {}

    def read(self, problems: list[Problem], path: str, value: Mapping[str, Any] | str | None) -> str | None:
        """A policy as it is stored, defaults filled in; what is wrong with it becomes problems."""
        if value is None:
            return None
        text = _encode(value)
        if text not in self._known:
            policy, found = parse_policy(value, path, self._policies.limits, self._policies.named)
            problems.extend(found)
            if found:
                return None
            self._known[text] = _policy_json(policy)
        return self._known[text]


def _policy_json(policy: RetryPolicy | None) -> str | None:
    return None if policy is None else _encode(policy.to_json()).decode()


def _wire(batch: Batch, tasks: list[Task], drafts: Sequence[TaskDraft]) -> Submission:
    """Links between the tasks, and what each waits for."""
    by_key = {task.key: task for task in tasks}
    links: list[Link] = []
    twins: dict[str, list[Twin]] = {}
    for task, draft in zip(tasks, drafts, strict=True):
        for dependency in draft.dependencies or ():
            parent = by_key[dependency.id]
            links.append(Link(parent.id, task.id, condition_of(dependency)))
            task.waits += 1
            task.status = Status.WAITING
            task.linked = parent.linked = True
        if draft.dedupe_strategy:
            twins[task.id] = [_twin(matcher, draft.metadata or {}) for matcher in draft.dedupe_strategy]
    return Submission(batch, tasks, links, twins)


def _twin(matcher: MatcherDraft, metadata: Mapping[str, Any]) -> Twin:
    wanted = {name: metadata[name] for name in matcher.fields or ()}
    return Twin(matcher.kind, VALUES[matcher.status or ""], _encode(wanted).decode())


def _actions(problems: list[Problem], path: str, draft: TaskDraft, egress: Egress) -> str:
    """The task's webhooks as they are stored and shown."""
    found = []
    if draft.on_start is not None:
        found.append(check_action(problems, f"{path}.on_start", draft.on_start, "Start", None, egress))
    for name, trigger, condition in (
        ("on_success", "End", "Success"),
        ("on_failure", "End", "Failure"),
        ("on_cancel", "Cancel", None),
    ):
        for index, action in enumerate(getattr(draft, name) or ()):
            found.append(check_action(problems, f"{path}.{name}[{index}]", action, trigger, condition, egress))
    return _encode(found).decode() if found else "[]"


def check_action(
    problems: list[Problem], path: str, draft: ActionDraft, trigger: str, condition: str | None, egress: Egress
) -> dict[str, Any]:
    params = check_webhook(problems, path, draft, egress)
    return {"kind": "Webhook", "trigger": trigger, "condition": condition, "params": params}


def check_webhook(problems: list[Problem], path: str, draft: ActionDraft, egress: Egress) -> dict[str, Any]:
    """The parameters of a webhook as they are stored; what is wrong with them becomes problems.

    Names of hosts are not looked up here: that is done, and checked, whenever the webhook is sent.
    """
    webhook: WebhookDraft = draft.params
    if draft.kind not in (None, "Webhook"):
        problems.append(Problem(f"{path}.kind", "must be 'Webhook'"))
    problems.extend(Problem(f"{path}.params.url", refusal) for refusal in egress.check_url(webhook.url))
    verb = VERBS.get((webhook.verb or "Post").lower())
    if verb is None:
        problems.append(Problem(f"{path}.params.verb", f"must be one of {', '.join(VERBS.values())}"))
    if webhook.headers:
        problems.extend(Problem(f"{path}.params.headers", refusal) for refusal in egress.check_headers(webhook.headers))
    if webhook.timeout is not None and not 0 < webhook.timeout <= LONGEST_WEBHOOK_SECS:
        problems.append(
            Problem(f"{path}.params.timeout", f"must be above 0 and at most {LONGEST_WEBHOOK_SECS:g} seconds")
        )
    encode_json(problems, f"{path}.params.body", webhook.body, BODY_BYTES)
    stored: dict[str, Any] = {"url": webhook.url, "verb": verb}
    if webhook.body is not None:
        stored["body"] = webhook.body
    if webhook.headers:
        stored["headers"] = webhook.headers
    if webhook.timeout is not None:
        stored["timeout"] = webhook.timeout
    return stored


def encode_json(problems: list[Problem], path: str, value: Any, most_bytes: int) -> str | None:
    """`value` as JSON text, None if absent; what a database could not keep becomes a problem."""
    if value is None:
        return None
    try:
        text = _encode(value)
    except (RecursionError, ValueError, OverflowError):
        problems.append(Problem(path, f"must be plain JSON, nested at most {JSON_DEPTH} deep"))
        return None
    if len(text) > most_bytes:
        problems.append(Problem(path, f"must have at most {most_bytes // 1024} KiB, has {len(text)} bytes"))
    elif b"\\u0000" in text and _NUL.search(text):
        problems.append(Problem(path, "must not contain the NUL character"))
    elif text.count(b"[") + text.count(b"{") > JSON_DEPTH and _depth(value) > JSON_DEPTH:
        problems.append(Problem(path, f"must be nested at most {JSON_DEPTH} deep"))
    return text.decode()


def _depth(value: Any) -> int:
    deepest = 0
    level = [value]
    while level:
        deepest += 1
        level = [
            item
            for node in level
            if isinstance(node, list | dict)
            for item in (node.values() if isinstance(node, dict) else node)
        ]
    return deepest
