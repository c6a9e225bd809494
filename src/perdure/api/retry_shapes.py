"""What answers about retries look like. Members are named as the columns of the view `retry_schedules`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Raw, Struct

from perdure.api.shapes import ErrorEntry, Id, Moment
from perdure.domain.policy import Strategy
from perdure.store.retries import RETRY_STATUSES

StrategyName: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": [strategy.value for strategy in Strategy]})]
PolicyGiven: TypeAlias = dict[str, Any] | str


class RetrySchedule(Struct):
    """A task or batch that has a retry policy and has failed, and when it is tried again."""

    id: Id
    retry_type: Literal["node_execution", "execution"]
    target_id: Annotated[Id, Meta(description="The task, or the batch.")]
    execution_id: Annotated[Id, Meta(description="The batch.")]
    node_id: Annotated[str | None, Meta(description="The task's key; null for a batch.")]
    retry_strategy: StrategyName
    max_attempts: Annotated[int, Meta(description="How often it may be retried.")]
    current_attempt: Annotated[int, Meta(description="How much of that is spent.")]
    initial_delay_seconds: float
    delay_seconds: float | None
    multiplier: float
    max_delay_seconds: float
    custom_schedule: Annotated[
        Raw,
        Meta(
            description='`{"attempts": [{"attempt": 1, "delay_secs": 60}]}`, or null.',
            extra_json_schema={"type": ["object", "null"]},
        ),
    ]
    scheduled_at: Annotated[Moment, Meta(description="When it is tried next, or was last.")]
    last_retried_at: Moment | None
    expires_at: Moment | None
    status: Annotated[str, Meta(extra_json_schema={"enum": list(RETRY_STATUSES)})]
    locked_by: Annotated[str | None, Meta(description="Who works on it now.")]
    locked_at: Moment | None
    retry_context: Annotated[
        Raw,
        Meta(
            description="What it runs with: `payload` and `metadata` of a task, `context` of a batch.",
            extra_json_schema={"type": "object"},
        ),
    ]
    error_history: list[ErrorEntry]
    created_at: Moment
    updated_at: Moment
    version: Annotated[int, Meta(description="Grows with every change.")]


class StrategyStats(Struct):
    """How retries of one strategy fare."""

    success_rate: Annotated[float | None, Meta(description="Percent of those that are over; null while none is.")]
    average_delay_secs: Annotated[
        float | None, Meta(description="Of the waits that were scheduled for tasks; null while there was none.")
    ]
    pending: Annotated[int, Meta(description="All that wait, paused and parked ones included.")]
    scheduled_next_24h: Annotated[int, Meta(description="Those that are due by then, overdue ones included.")]
    retrying: int
    completed: int
    failed: int
    exhausted: Annotated[int, Meta(description="Those that failed or were parked with their budget spent.")]


class RetryStats(StrategyStats):
    """How all retries fare, and those of each strategy."""

    by_strategy: dict[StrategyName, StrategyStats]


class PreviewEntry(Struct):
    """One retry, in seconds since the first failure."""

    attempt: int
    delay_secs: float
    earliest_secs: float
    expected_secs: float
    latest_secs: float


class PolicyPreview(Struct):
    """What a policy would do to a task that fails at once, every time."""

    policy: Annotated[dict[str, Any], Meta(description="The policy, defaults filled in.")]
    timeline: list[PreviewEntry]
    total_span_secs: Annotated[float, Meta(description="From the first failure to the last retry, without jitter.")]
    warnings: list[str]


class BatchRetryResult(Struct):
    """How many tasks of a batch live again."""

    batch_id: Id
    retried_count: int
