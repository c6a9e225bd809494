"""Short ways to write down tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perdure.domain.drafts import ActionDraft, DependencyDraft, MatcherDraft, RuleDraft, TaskDraft, WebhookDraft
from perdure.domain.model import ErrorClass, Failure, FailureTrigger

After = str | Iterable[str] | Mapping[str, str]


def a_task(key: str, *, after: After = (), kind: str = "job", worker: bool = False, **fields: Any) -> TaskDraft:
    """A webhook task that waits for `after`: parents, or a mapping from parent to condition."""
    if not worker:
        fields.setdefault("on_start", a_call("start"))
    return TaskDraft(id=key, name=f"task {key}", kind=kind, dependencies=_dependencies(after) or None, **fields)


def _dependencies(after: After) -> list[DependencyDraft]:
    if isinstance(after, str):
        return [DependencyDraft(after)]
    if isinstance(after, Mapping):
        return [DependencyDraft(parent, condition=condition) for parent, condition in after.items()]
    return [DependencyDraft(parent) for parent in after]


def a_call(path: str) -> ActionDraft:
    return ActionDraft(WebhookDraft(f"https://receiver.example/{path}"))


def at_most(limit: int, kind: str = "job", *fields: str) -> RuleDraft:
    """No more than `limit` tasks of a kind at once, apart by the values of metadata fields."""
    return RuleDraft(MatcherDraft(kind, "Running", list(fields)), max_concurrency=limit)


def work_below(limit: int, kind: str = "job", *fields: str) -> RuleDraft:
    """Nothing starts while the work left in running tasks of a kind is `limit` or more."""
    return RuleDraft(MatcherDraft(kind, "Running", list(fields)), max_capacity=limit)


def unless(status: str, *fields: str, kind: str = "job") -> list[MatcherDraft]:
    """Not needed if there is a task of this kind and status with the same values for `fields`."""
    return [MatcherDraft(kind, status, list(fields))]


def fixed_retry(delay_secs: float = 10, max_retries: int = 3, **fields: Any) -> dict[str, Any]:
    return {"strategy": "fixed_delay", "delay_secs": delay_secs, "max_retries": max_retries, **fields}


def broken(message: str = "it broke", error_class: ErrorClass = ErrorClass.RETRYABLE, **fields: Any) -> Failure:
    """A failure that the receiver reports."""
    return Failure(FailureTrigger.EXPLICIT, error_class, message, **fields)
