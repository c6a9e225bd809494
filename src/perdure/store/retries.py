"""Seeing retries: pages of the view `retry_schedules`, and what all of it adds up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from perdure.domain.policy import Strategy
from perdure.store.changes import Row
from perdure.store.interface import Session
from perdure.store.listings import FIND, Conditions, Page
from perdure.store.statements import Dialect

SOON = timedelta(hours=24)
#: Every status that the view shows.
RETRY_STATUSES = ("pending", "scheduled", "retrying", "completed", "failed", "cancelled")

_TARGET = {Dialect.SQLITE: "r.target_id", Dialect.POSTGRES: "CAST(r.target_id AS uuid)"}
#: A moment as the view shows it.
_MOMENT = {
    Dialect.SQLITE: "strftime('%Y-%m-%d %H:%M:%f', ? / 1000 / 1000.0, 'unixepoch')",
    Dialect.POSTGRES: "?",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryFilter:
    """What retries must be like to be listed; None asks for nothing."""

    statuses: Sequence[str] = ()
    """Any of them will do."""
    due_before: datetime | None = None
    kind: str | None = None
    """Part of the kind of the task, or of one of the batch's tasks."""


@dataclass(slots=True)
class RetryCounts:
    """How many tasks and batches that failed are where, and how long their retries waited."""

    pending: int = 0
    """All that wait, also those that are paused or parked."""
    scheduled_next_24h: int = 0
    retrying: int = 0
    completed: int = 0
    failed: int = 0
    exhausted: int = 0
    """Failed or parked because the budget was spent."""
    delays: int = 0
    total_delay_secs: float = 0.0

    @property
    def success_rate(self) -> float | None:
        """Percent of those that are over; None while none is."""
        over = self.completed + self.failed
        return round(100 * self.completed / over, 2) if over else None

    @property
    def average_delay_secs(self) -> float | None:
        """Of every wait that was scheduled for a task; None while there was none."""
        return round(self.total_delay_secs / self.delays, 3) if self.delays else None

    def add(self, other: RetryCounts) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


async def list_retries(session: Session, wanted: RetryFilter, page: Page) -> list[Row]:
    """A page of the view, the earliest first."""
    conditions = Conditions()
    if wanted.statuses:
        conditions.add(f"r.status IN ({', '.join('?' for _ in wanted.statuses)})", *wanted.statuses)
    conditions.add_given(f"r.scheduled_at < {_MOMENT[session.dialect]}", wanted.due_before)
    if wanted.kind is not None:
        target = _TARGET[session.dialect]
        named = f"{FIND[session.dialect]}(task.kind, ?) > 0"
        conditions.add(
            f"(EXISTS (SELECT 1 FROM task WHERE task.id = {target} AND {named})"
            f" OR EXISTS (SELECT 1 FROM task WHERE task.batch_id = {target} AND {named}))",
            wanted.kind,
            wanted.kind,
        )
    return await session.query(
        f"SELECT r.* FROM retry_schedules r{conditions.where()} ORDER BY r.scheduled_at, r.id LIMIT ? OFFSET ?",
        [*conditions.values, page.size, page.offset],
    )


async def count_retries(session: Session) -> Mapping[str, RetryCounts]:
    """What there is of each strategy, every one of them named."""
    found = {strategy.value: RetryCounts() for strategy in Strategy}
    for row in await session.fetch("retry_counts", soon=session.now + SOON):
        counts = found[row["retry_strategy"]]
        for name in ("pending", "scheduled_next_24h", "retrying", "completed", "failed", "exhausted"):
            setattr(counts, name, row[name])
    for row in await session.fetch("retry_delays"):
        counts = found[row["retry_strategy"]]
        counts.delays, counts.total_delay_secs = row["delays"], row["total_secs"]
    return found
