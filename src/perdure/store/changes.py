"""What one transaction changed: the source of the audit trail, the outbox, wake-ups and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from perdure.domain.keys import Trigger
from perdure.domain.states import Status


class Moved(NamedTuple):
    """A task went from one state to another (from None: it was created)."""

    task_id: str
    batch_id: str
    kind: str
    source: Status | None
    target: Status
    attempt: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Switched:
    """A task was paused or resumed: it shows another status, but its state is the same."""

    task_id: str
    batch_id: str
    shown_before: str
    shown_now: str
    attempt: int


class AttemptEnded(NamedTuple):
    """One execution of a task is over."""

    task_id: str
    attempt: int
    instance: str | None
    started_at: datetime | None
    outcome: str
    kind: str
    trigger: str | None = None
    error_class: str | None = None
    http_status: int | None = None
    code: str | None = None
    message: str | None = None
    delay_secs: float | None = None
    delay_source: str | None = None
    charged: bool | None = None
    next_retry_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A webhook that must leave because of this transaction."""

    task_id: str
    trigger: Trigger
    attempt: int
    index: int
    params: str


class Note(NamedTuple):
    """Something that the operator should read in the log once it is committed."""

    level: int
    message: str
    fields: Callable[[], dict[str, Any]]
    """Asked only if the log takes the message: most failures are many, and most of what is noted is for few."""


@dataclass(slots=True)
class Changes:
    """Collected while a transaction runs, written with it, told to listeners once it is committed."""

    at: datetime
    moved: list[Moved] = field(default_factory=list)
    switched: list[Switched] = field(default_factory=list)
    attempts: list[AttemptEnded] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Named counts for metrics, each with one label value (or an empty one)."""
    waited: list[tuple[str, float]] = field(default_factory=list)
    """How long claimed tasks were claimable, by kind, in seconds."""
    lateness: list[float] = field(default_factory=list)
    """How late retries were released, in seconds."""
    notes: list[Note] = field(default_factory=list)
    due_at: datetime | None = None
    """The earliest moment at which something that was scheduled here is due."""

    def count(self, name: str, label: str = "", by: int = 1) -> None:
        if by:
            self.counts[name, label] += by

    def note(self, level: int, message: str, fields: Callable[[], dict[str, Any]]) -> None:
        self.notes.append(Note(level, message, fields))

    def due(self, moment: datetime | None) -> None:
        if moment is not None and (self.due_at is None or moment < self.due_at):
            self.due_at = moment


Row = Any
"""A row of a result: `row["column"]`. Ids are str, moments aware datetimes, flags bool, JSON its text."""
