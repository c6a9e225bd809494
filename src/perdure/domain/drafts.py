"""What people hand in, before it is checked: the shapes of a submission.

Members are named as in the HTTP API; JSON decodes straight into these. `None` means absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class WebhookDraft:
    url: str
    verb: str | None = None
    body: Any = None
    headers: dict[str, str] | None = None
    timeout: float | None = None


@dataclass(slots=True)
class ActionDraft:
    params: WebhookDraft
    kind: str | None = None


@dataclass(slots=True)
class DependencyDraft:
    id: str
    requires_success: bool | None = None
    condition: str | None = None


@dataclass(slots=True)
class MatcherDraft:
    kind: str
    status: str | None = None
    fields: list[str] | None = None


@dataclass(slots=True)
class RuleDraft:
    matcher: MatcherDraft
    type: str | None = None
    max_concurrency: int | None = None
    max_concurency: int | None = None
    max_capacity: int | None = None


@dataclass(slots=True)
class TaskDraft:
    id: str
    name: str
    kind: str
    on_start: ActionDraft | None = None
    on_success: list[ActionDraft] | None = None
    on_failure: list[ActionDraft] | None = None
    on_cancel: list[ActionDraft] | None = None
    timeout: int | None = None
    completion: str | None = None
    payload: Any = None
    metadata: dict[str, Any] | None = None
    dependencies: list[DependencyDraft] | None = None
    rules: list[RuleDraft] | None = None
    dedupe_strategy: list[MatcherDraft] | None = None
    expected_count: int | None = None
    priority: int | None = None
    dead_end_barrier: bool | None = None
    retry: dict[str, Any] | str | None = None
    run_at: str | None = None
    delay: str | int | float | None = None


@dataclass(slots=True)
class BatchDraft:
    tasks: list[TaskDraft]
    name: str | None = None
    namespace: str | None = None
    context: Any = None
    retry: dict[str, Any] | str | None = None


@dataclass(slots=True)
class ReportDraft:
    """The body of `PATCH /task/{id}`."""

    status: str | None = None
    failure_reason: str | None = None
    error_class: str | None = None
    retry_after: Any = None
    code: str | None = None
    result: Any = None
    metadata: dict[str, Any] | None = None
    new_success: int | None = None
    new_failures: int | None = None
    expected_count: int | None = None
    priority: int | None = None
    attempt: int | None = None


@dataclass(slots=True)
class RevisionDraft:
    """The body of `POST /task/{id}/retry`: what changes before the task is tried again."""

    payload: Any = None
    metadata: dict[str, Any] | None = None
    timeout: int | None = None
    on_start: ActionDraft | None = None
    retry: dict[str, Any] | str | None = None


@dataclass(slots=True)
class CountDraft:
    """The body of `PUT /task/{id}`."""

    new_success: int | None = None
    new_failures: int | None = None


@dataclass(slots=True)
class RulesDraft:
    """The body of `PATCH /batch/{id}/rules`."""

    kind: str
    rules: list[RuleDraft]
