"""The things that the system knows: batches, tasks, links, and what is reported about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from perdure.domain.states import Status


class Condition(StrEnum):
    """What a child waits for."""

    ON_SUCCESS = "on_success"
    ALWAYS = "always"
    ON_FAILURE = "on_failure"


class Executor(StrEnum):
    """Who runs a task: a receiver called over HTTP, or a Python worker."""

    WEBHOOK = "webhook"
    WORKER = "worker"


class Completion(StrEnum):
    """When a webhook task is done: when the receiver reports, or with the answer to the call."""

    CALLBACK = "callback"
    RESPONSE = "response"


class FailureTrigger(StrEnum):
    """Where a failure showed."""

    TIMEOUT = "timeout"
    WEBHOOK_FAILURE = "webhook_failure"
    EXPLICIT = "explicit"
    WORKER_LOST = "worker_lost"


class ErrorClass(StrEnum):
    """What a failure means for a retry."""

    FINAL = "final"
    RETRYABLE = "retryable"
    RATE_LIMITED = "rate_limited"


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in an attempt."""

    trigger: FailureTrigger
    error_class: ErrorClass
    message: str
    http_status: int | None = None
    retry_after_secs: float | None = None
    code: str | None = None


@dataclass(slots=True)
class Task:
    """One node of a batch, as it is stored. JSON members are kept as JSON text."""

    id: str
    batch_id: str
    position: int
    key: str
    name: str
    kind: str
    namespace: str
    lane: int
    destination: str
    """Whom on_start calls; empty for a task that a worker runs."""
    status: Status
    paused: bool
    parked: bool
    delayed: bool
    linked: bool
    waits: int
    executor: Executor
    completion: Completion
    timeout: int
    priority: int
    payload: str | None
    metadata: str | None
    rules: str
    actions: str
    expected_count: int | None
    success: int
    failures: int
    dead_end_barrier: bool
    retry_policy: str | None
    attempt: int
    retry_count: int
    next_retry_at: datetime | None
    run_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    last_updated: datetime
    failure_reason: str | None
    error_class: str | None
    result: str | None
    locked_by: str | None


@dataclass(frozen=True, slots=True)
class Link:
    parent_id: str
    child_id: str
    condition: Condition


@dataclass(slots=True)
class Batch:
    """One submission: a DAG of tasks."""

    id: str
    name: str | None
    namespace: str
    context: str | None
    retry_policy: str | None
    definition: str | None
    retry_of: str | None
    attempt: int
    created_at: datetime
    retry_state: str | None = None
    """Of the first batch of a chain of executions, if it has a policy; see store/verbs/executions.py."""
    execution_id: str | None = None
    """The batch that runs now for this one: itself, or its latest repetition."""


@dataclass(frozen=True, slots=True)
class Twin:
    """What a task must not repeat: an existing task of this kind and status, with these metadata values."""

    kind: str
    status: str
    wanted: str
    """The metadata values as a JSON object."""


@dataclass(slots=True)
class Submission:
    """A batch ready to be stored, with what decides whether its tasks are needed at all."""

    batch: Batch
    tasks: list[Task]
    links: list[Link]
    twins: dict[str, list[Twin]] = field(default_factory=dict)
    """By task id: what makes the task a duplicate."""
