"""What answers look like. JSON that only passes through is kept as text and written out untouched."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from perdure.domain.states import LABELS, SHOWN


def _shown_as(description: str, **schema: Any) -> Meta:
    return Meta(description=description, extra_json_schema=schema)


Id: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "uuid"})]
Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
StatusLabel: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": [LABELS[value] for value in SHOWN]})]
AnyJson: TypeAlias = Annotated[Raw, _shown_as("Any JSON, null if there is none.")]
Metadata: TypeAlias = Annotated[Raw, _shown_as("What the task carries along.", type=["object", "null"])]
Rules: TypeAlias = Annotated[Raw, _shown_as("What must hold before it starts.", type="array", items={"type": "object"})]
Actions: TypeAlias = Annotated[
    Raw,
    _shown_as(
        "Webhooks and what sets them off.",
        type="array",
        items={
            "type": "object",
            "properties": {
                "kind": {"const": "Webhook"},
                "trigger": {"enum": ["Start", "End", "Cancel"]},
                "condition": {"enum": ["Success", "Failure", None]},
                "params": {"type": "object"},
            },
            "required": ["kind", "trigger", "condition", "params"],
        },
    ),
]
Retry: TypeAlias = Annotated[Raw, _shown_as("The retry policy, defaults filled in.", type=["object", "null"])]
StatusCounts: TypeAlias = Annotated[
    dict[str, int],
    _shown_as(
        "How many tasks show each status.",
        properties={value: {"type": "integer"} for value in SHOWN},
        required=list(SHOWN),
    ),
]


class ErrorEntry(Struct, gc=False):
    """A failed attempt."""

    attempt: int
    timestamp: Moment
    error: str | None
    error_class: str | None
    http_status: int | None
    code: str | None


class FullTask(Struct, gc=False):
    """A task with everything that is known of it."""

    id: Id
    key: Annotated[str, Meta(description="Its id in the submission.")]
    name: str
    kind: str
    namespace: str
    status: StatusLabel
    timeout: int
    priority: int
    rules: Rules
    metadata: Metadata
    payload: AnyJson
    actions: Actions
    created_at: Moment
    started_at: Moment | None
    ended_at: Moment | None
    last_updated: Moment
    success: int
    failures: int
    expected_count: int | None
    failure_reason: str | None
    result: AnyJson
    batch_id: Id
    dead_end_barrier: bool
    retry: Retry
    attempt: int
    retry_count: int
    next_retry_at: Moment | None
    error_class: str | None
    error_history: list[ErrorEntry]
    locked_by: Annotated[str | None, Meta(description="The instance or worker that has it now.")]
    paused: bool
    parked: bool


class ShortTask(Struct, gc=False):
    """A task as listings show it."""

    id: Id
    name: str
    kind: str
    status: StatusLabel
    created_at: Moment
    started_at: Moment | None
    ended_at: Moment | None
    success: int
    failures: int
    expected_count: int | None
    batch_id: Id
    dead_end_barrier: bool
    priority: int
    attempt: int
    next_retry_at: Moment | None


class CreatedBatch(Struct):
    """A batch that was just stored."""

    batch_id: Id
    tasks: list[FullTask]


class BatchDetails(Struct):
    """A batch and what its tasks add up to."""

    batch_id: Id
    name: str | None
    namespace: str
    total_tasks: int
    status_counts: StatusCounts
    total_success: int
    total_failures: int
    total_expected: Annotated[int | None, Meta(description="Null if any task lacks an expected_count.")]
    kinds: list[str]
    first_created_at: Moment | None
    latest_updated_at: Moment | None
    created_at: Moment
    context: AnyJson
    retry: Retry
    retry_of: Id | None
    attempt: int
    retry_state: Annotated[
        Literal["open", "scheduled", "retrying", "completed", "failed", "cancelled"] | None,
        Meta(description="How its own retry policy fares; null without one, and for a repetition."),
    ]
    next_retry_at: Annotated[Moment | None, Meta(description="When it is run again as a whole.")]


class BatchSummary(Struct):
    """A batch as listings show it."""

    batch_id: Id
    total_tasks: int
    first_created_at: Moment | None
    latest_updated_at: Moment | None
    status_counts: StatusCounts
    kinds: list[str]
    name: str | None
    retry_of: Id | None
    attempt: int


class StopResult(Struct):
    """What stopping a batch did, by the status that its tasks showed."""

    batch_id: Id
    canceled_waiting: int
    canceled_pending: int
    canceled_claimed: int
    canceled_running: int
    canceled_retry_pending: int
    canceled_paused: int
    already_terminal: int


class RulesResult(Struct):
    """How many tasks got new rules."""

    batch_id: Id
    kind: str
    updated_count: int


class DagLink(Struct, gc=False):
    """What a task waits for."""

    parent_id: Id
    child_id: Id
    condition: Literal["on_success", "always", "on_failure"]
    requires_success: bool


class DagView(Struct):
    """A batch as a graph."""

    tasks: list[ShortTask]
    links: list[DagLink]


class AttemptEntry(Struct, gc=False):
    """One execution of a task that is over."""

    attempt: int
    instance: str | None
    started_at: Moment | None
    ended_at: Moment
    outcome: str
    trigger: str | None
    error_class: str | None
    http_status: int | None
    code: str | None
    message: str | None
    delay_secs: float | None
    delay_source: str | None
    charged: bool | None
    next_retry_at: Moment | None


class DeliveryEntry(Struct, gc=False):
    """A webhook of a task: whether it was sent, and how that went."""

    id: Id
    task_id: Id
    trigger: str
    condition: str
    action_index: int
    attempt: int
    idempotency_key: str
    status: str
    attempts: int
    next_send_at: Moment | None
    last_status: int | None
    last_error: str | None
    created_at: Moment
    updated_at: Moment


class EventEntry(Struct, gc=False):
    """A change of a task's status."""

    seq: int
    at: Moment
    from_status: StatusLabel | None
    to_status: StatusLabel
    attempt: int
    reason: str | None
    instance: str | None


class PauseEntry(Struct):
    """A kind or namespace whose claims are held back."""

    scope: Literal["kind", "namespace"]
    name: str
    created_at: Moment


class PauseResult(Struct):
    """Whether the claims of a kind or namespace are held back now."""

    scope: Literal["kind", "namespace"]
    name: str
    paused: bool


class Health(Struct):
    """Whether the server and its database work."""

    status: Literal["ok", "degraded"]
    database: Literal["healthy", "unhealthy"]


class Readiness(Struct):
    """Whether the server takes requests."""

    status: Literal["ready", "not ready"]


class ProblemDocument(Struct):
    """Why a request was refused (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    error: Annotated[str, Meta(description="The title once more, short.")]
    details: Annotated[list[str] | UnsetType, Meta(description="Every broken rule, as `field: message`.")] = UNSET
    batch_id: Annotated[
        str | UnsetType, Meta(description="Names the refused submission only; no batch has this id.")
    ] = UNSET
    task_status: Annotated[str | UnsetType | None, Meta(description="The status that the task shows.")] = UNSET
    task_attempt: Annotated[int | UnsetType | None, Meta(description="The attempt that the task is in.")] = UNSET
