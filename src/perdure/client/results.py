"""What a server answers, as types. Members are named as in the HTTP API; those that are new to us are ignored."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

LIVE = ("waiting", "pending", "claimed", "running", "retry_pending", "paused")
_OVER = frozenset({"Success", "Failure", "Canceled", "Skipped"})


class ErrorEntry(Struct, frozen=True):
    """One failure of a task, as its list of errors keeps it."""

    attempt: int
    timestamp: datetime
    error: str | None = None
    error_class: str | None = None
    http_status: int | None = None
    code: str | None = None


class ShortTask(Struct, frozen=True):
    """A task as lists show it."""

    id: str
    name: str
    kind: str
    status: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    success: int
    failures: int
    expected_count: int | None
    batch_id: str
    dead_end_barrier: bool
    priority: int
    attempt: int
    next_retry_at: datetime | None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen by itself."""
        return self.status in _OVER


class Task(Struct, frozen=True):
    """Everything about a task."""

    id: str
    key: str
    name: str
    kind: str
    namespace: str
    status: str
    timeout: int
    priority: int
    rules: list[Any]
    metadata: dict[str, Any] | None
    payload: Any
    actions: list[Any]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    last_updated: datetime
    success: int
    failures: int
    expected_count: int | None
    failure_reason: str | None
    result: Any
    batch_id: str
    dead_end_barrier: bool
    retry: dict[str, Any] | None
    attempt: int
    retry_count: int
    next_retry_at: datetime | None
    error_class: str | None
    error_history: list[ErrorEntry]
    locked_by: str | None
    paused: bool
    parked: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen by itself."""
        return self.status in _OVER


class Batch(Struct, frozen=True):
    """A batch with the counts of its tasks by status."""

    batch_id: str
    name: str | None
    namespace: str
    total_tasks: int
    status_counts: dict[str, int]
    total_success: int
    total_failures: int
    total_expected: int | None
    kinds: list[str]
    first_created_at: datetime | None
    latest_updated_at: datetime | None
    created_at: datetime
    context: Any = None
    retry: dict[str, Any] | None = None
    retry_of: str | None = None
    attempt: int = 0
    retry_state: str | None = None
    next_retry_at: datetime | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen by itself."""
        return not any(self.status_counts.get(status) for status in LIVE)


class BatchSummary(Struct, frozen=True):
    """A batch as lists show it."""

    batch_id: str
    total_tasks: int
    first_created_at: datetime | None
    latest_updated_at: datetime | None
    status_counts: dict[str, int]
    kinds: list[str]
    name: str | None
    retry_of: str | None
    attempt: int


class Link(Struct, frozen=True):
    """One dependency of a DAG: `child` waits for `parent`."""

    parent_id: str
    child_id: str
    condition: str
    requires_success: bool


class Dag(Struct, frozen=True):
    """The tasks of a batch and what waits for what."""

    tasks: list[ShortTask]
    links: list[Link]


class Attempt(Struct, frozen=True):
    """One execution of a task."""

    attempt: int
    instance: str | None
    started_at: datetime | None
    ended_at: datetime
    outcome: str
    trigger: str | None
    error_class: str | None
    http_status: int | None
    code: str | None
    message: str | None
    delay_secs: float | None
    delay_source: str | None
    charged: bool | None
    next_retry_at: datetime | None


class Delivery(Struct, frozen=True):
    """A webhook: what is known about sending it."""

    id: str
    task_id: str
    trigger: str
    condition: str
    action_index: int
    attempt: int
    idempotency_key: str
    status: str
    attempts: int
    next_send_at: datetime | None
    last_status: int | None
    last_error: str | None
    created_at: datetime
    updated_at: datetime


class Event(Struct, frozen=True):
    """One change of a task."""

    seq: int
    at: datetime
    from_status: str | None
    to_status: str
    attempt: int
    reason: str | None
    instance: str | None


class Pause(Struct, frozen=True):
    """A kind or a namespace that is held back."""

    scope: str
    name: str
    created_at: datetime


class Submitted(Struct, frozen=True):
    """What was stored; no batch and no tasks if everything was there already."""

    batch_id: str | None
    tasks: list[Task]


class Stopped(Struct, frozen=True):
    """What stopping a batch did."""

    batch_id: str
    canceled_waiting: int
    canceled_pending: int
    canceled_claimed: int
    canceled_running: int
    canceled_retry_pending: int
    canceled_paused: int
    already_terminal: int


class RetrySchedule(Struct, frozen=True):
    """A retry that waits, runs or is over."""

    id: str
    retry_type: str
    target_id: str
    execution_id: str
    node_id: str | None
    retry_strategy: str
    max_attempts: int
    current_attempt: int
    initial_delay_seconds: float | None
    delay_seconds: float | None
    multiplier: float | None
    max_delay_seconds: float | None
    custom_schedule: Any
    scheduled_at: datetime
    last_retried_at: datetime | None
    expires_at: datetime | None
    status: str
    locked_by: str | None
    locked_at: datetime | None
    retry_context: Any
    error_history: list[ErrorEntry] | None
    created_at: datetime
    updated_at: datetime
    version: int


class StrategyStats(Struct, frozen=True):
    """Counts of the retries of one strategy."""

    success_rate: float | None
    average_delay_secs: float | None
    pending: int
    scheduled_next_24h: int
    retrying: int
    completed: int
    failed: int
    exhausted: int


class RetryStats(StrategyStats, frozen=True):
    """Counts of all retries, and of those of each strategy."""

    by_strategy: dict[str, StrategyStats]


class PlannedRetry(Struct, frozen=True):
    """One line of a preview."""

    attempt: int
    delay_secs: float
    earliest_secs: float
    expected_secs: float
    latest_secs: float


class Preview(Struct, frozen=True):
    """When a policy would retry."""

    policy: dict[str, Any]
    timeline: list[PlannedRetry]
    total_span_secs: float
    warnings: list[str]


class Health(Struct, frozen=True):
    """Whether the server and its database work."""

    status: str
    database: str
