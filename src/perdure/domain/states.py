"""The states of a task and the moves between them, as one table.

Guards in SQL and the diagram in docs/state_machine.md come from TRANSITIONS; nothing else lists states.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Where a task is. The value is what the database holds, the label what people read."""

    WAITING = "waiting"
    PENDING = "pending"
    CLAIMED = "claimed"
    RUNNING = "running"
    RETRY_PENDING = "retry_pending"
    SUCCESS = "success"
    FAILURE = "failure"
    CANCELED = "canceled"
    SKIPPED = "skipped"

    @property
    def label(self) -> str:
        return _LABELS[self]

    @property
    def is_live(self) -> bool:
        return self in LIVE


_LABELS = {status: "".join(word.title() for word in status.value.split("_")) for status in Status}

#: What a paused live task shows instead of the state that it will return to.
PAUSED = "paused"
PAUSED_LABEL = "Paused"

LIVE = frozenset({Status.WAITING, Status.PENDING, Status.CLAIMED, Status.RUNNING, Status.RETRY_PENDING})
TERMINAL = frozenset(Status) - LIVE
#: States in which somebody works on the task: what limits count and what a result may end.
ACTIVE = frozenset({Status.CLAIMED, Status.RUNNING})
#: Every value that `status` can take in an answer, in the order in which people read them.
SHOWN = (
    *(status.value for status in Status if status in LIVE),
    PAUSED,
    *(status.value for status in Status if status in TERMINAL),
)
LABELS = {**{status.value: status.label for status in Status}, PAUSED: PAUSED_LABEL}
VALUES = {label: value for value, label in LABELS.items()}


class Event(StrEnum):
    """What moves a task."""

    RELEASED = "last dependency satisfied"
    PARENT_FAILED = "an on_success parent failed or was canceled"
    CONDITION_LOST = "a condition can no longer hold"
    CLAIMED = "claimed"
    BEGUN = "claimed by a worker, which begins at once"
    STARTED = "on_start accepted"
    LEASE_LOST = "claim ran out"
    SUCCEEDED = "success reported"
    FAILED = "failure, no retry left"
    RETRY_SCHEDULED = "failure, retried by policy"
    RETRY_DUE = "retry due"
    CANCELED = "cancel, stop batch or dead end"
    RETRIED_BY_HAND = "manual retry"
    RESTORED = "manual retry of what it waits for"


@dataclass(frozen=True, slots=True)
class Transition:
    source: Status
    event: Event
    target: Status


def _moves(event: Event, sources: frozenset[Status], target: Status) -> list[Transition]:
    return [Transition(source, event, target) for source in Status if source in sources]


TRANSITIONS: tuple[Transition, ...] = (
    *_moves(Event.RELEASED, frozenset({Status.WAITING}), Status.PENDING),
    *_moves(Event.PARENT_FAILED, frozenset({Status.WAITING}), Status.FAILURE),
    *_moves(Event.CONDITION_LOST, frozenset({Status.WAITING}), Status.SKIPPED),
    *_moves(Event.CLAIMED, frozenset({Status.PENDING}), Status.CLAIMED),
    *_moves(Event.BEGUN, frozenset({Status.PENDING}), Status.RUNNING),
    *_moves(Event.STARTED, frozenset({Status.CLAIMED}), Status.RUNNING),
    *_moves(Event.LEASE_LOST, frozenset({Status.CLAIMED}), Status.PENDING),
    *_moves(Event.SUCCEEDED, ACTIVE, Status.SUCCESS),
    *_moves(Event.RETRY_SCHEDULED, ACTIVE, Status.RETRY_PENDING),
    *_moves(Event.FAILED, ACTIVE, Status.FAILURE),
    *_moves(Event.RETRY_DUE, frozenset({Status.RETRY_PENDING}), Status.PENDING),
    *_moves(Event.CANCELED, LIVE, Status.CANCELED),
    *_moves(
        Event.RETRIED_BY_HAND,
        frozenset({Status.FAILURE, Status.CANCELED, Status.RETRY_PENDING}),
        Status.PENDING,
    ),
    *_moves(Event.RESTORED, frozenset({Status.FAILURE, Status.CANCELED}), Status.WAITING),
)


def sources(event: Event) -> frozenset[Status]:
    """The states from which `event` moves a task."""
    return frozenset(move.source for move in TRANSITIONS if move.event is event)


def target(event: Event) -> Status:
    """The one state that `event` leads to."""
    return next(move.target for move in TRANSITIONS if move.event is event)
