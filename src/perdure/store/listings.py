"""Listings: pages of tasks and batches, newest first, narrowed by filters that are put together at run time.

The SQL is made of fixed parts; what people type is always bound, never spliced in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perdure.domain.states import LIVE, Status
from perdure.store.changes import Row
from perdure.store.interface import Session
from perdure.store.records import SHORT_TASK_COLUMNS
from perdure.store.statements import Dialect

_LIVE = ", ".join(f"'{status.value}'" for status in Status if status in LIVE)
_SHOWN = f"CASE WHEN task.paused AND task.status IN ({_LIVE}) THEN 'paused' ELSE task.status END"
#: Where a part begins in a text, 0 if it does not occur in it.
FIND = {Dialect.SQLITE: "instr", Dialect.POSTGRES: "strpos"}
_CONTAINS = {
    Dialect.SQLITE: "json_contains(task.metadata, ?)",
    Dialect.POSTGRES: "task.metadata @> CAST(? AS jsonb)",
}


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a listing: by number from 0, or what comes after the task `cursor`."""

    number: int = 0
    size: int = 50
    cursor: str | None = None

    @property
    def offset(self) -> int:
        return 0 if self.cursor is not None else self.number * self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """What tasks must be like to be listed; None asks for nothing."""

    statuses: Sequence[str] = ()
    """Shown statuses, `paused` among them; any of them will do."""
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    batch_id: str | None = None
    timeout: int | None = None
    metadata: str | None = None
    """JSON text that the metadata must contain."""
    error_class: str | None = None
    due_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFilter:
    """What batches must be like to be listed; None asks for nothing."""

    statuses: Sequence[str] = ()
    kind: str | None = None
    name: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """One page, and where the next one begins if there is one."""

    rows: Sequence[Row]
    next_cursor: str | None


class Conditions:
    """Conditions that must all hold, and the values that they are about."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.values: list[Any] = []

    def add(self, sql: str, *values: Any) -> None:
        self._parts.append(sql)
        self.values.extend(values)

    def add_given(self, sql: str, value: Any) -> None:
        if value is not None:
            self.add(sql, value)

    def where(self) -> str:
        return f" WHERE {' AND '.join(self._parts)}" if self._parts else ""


async def list_tasks(session: Session, wanted: TaskFilter, page: Page) -> Listed:
    """A page of tasks, with the columns that a listing shows."""
    find = FIND[session.dialect]
    conditions = Conditions()
    conditions.add_given("task.batch_id = ?", wanted.batch_id)
    conditions.add_given("task.id < ?", page.cursor)
    if wanted.statuses:
        conditions.add(_shown_is_any(wanted.statuses), *wanted.statuses)
    conditions.add_given(f"{find}(task.kind, ?) > 0", wanted.kind)
    conditions.add_given(f"{find}(task.name, ?) > 0", wanted.name)
    conditions.add_given("task.namespace = ?", wanted.namespace)
    conditions.add_given("task.timeout = CAST(? AS bigint)", wanted.timeout)
    conditions.add_given("task.error_class = ?", wanted.error_class)
    conditions.add_given("task.next_retry_at < ?", wanted.due_before)
    conditions.add_given(_CONTAINS[session.dialect], wanted.metadata)
    # Ids grow with time, and within a batch with the position, which the batch's index has in order.
    order = "task.id" if wanted.batch_id is None else "task.position"
    columns = ", ".join(f"task.{column}" for column in SHORT_TASK_COLUMNS)
    rows = await session.query(
        f"SELECT {columns} FROM task{conditions.where()} ORDER BY {order} DESC LIMIT ? OFFSET ?",
        [*conditions.values, page.size + 1, page.offset],
    )
    shown = rows[: page.size]
    return Listed(shown, shown[-1]["id"] if len(rows) > page.size else None)


async def list_batches(session: Session, wanted: BatchFilter, page: Page) -> list[Row]:
    """A page of batches, without their tasks."""
    find = FIND[session.dialect]
    conditions = Conditions()
    conditions.add_given("batch.created_at >= ?", wanted.created_after)
    conditions.add_given("batch.created_at < ?", wanted.created_before)
    if wanted.name is not None:
        conditions.add(
            f"({find}(batch.name, ?) > 0 OR {_some_task(f'{find}(task.name, ?) > 0')})", wanted.name, wanted.name
        )
    if wanted.kind is not None:
        conditions.add(_some_task(f"{find}(task.kind, ?) > 0"), wanted.kind)
    if wanted.statuses:
        conditions.add(_some_task(_shown_is_any(wanted.statuses)), *wanted.statuses)
    return await session.query(
        "SELECT batch.id, batch.name, batch.retry_of, batch.attempt, batch.created_at"
        f" FROM batch{conditions.where()} ORDER BY batch.created_at DESC, batch.id DESC LIMIT ? OFFSET ?",
        [*conditions.values, page.size, page.offset],
    )


def _shown_is_any(statuses: Sequence[str]) -> str:
    return f"{_SHOWN} IN ({', '.join('?' for _ in statuses)})"


def _some_task(condition: str) -> str:
    return f"EXISTS (SELECT 1 FROM task WHERE task.batch_id = batch.id AND {condition})"
