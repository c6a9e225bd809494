"""Reading single things: a task with its history, a batch with its totals, the DAG, and the state of the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from perdure.domain.errors import NotFound
from perdure.domain.model import Task
from perdure.domain.states import SHOWN, TERMINAL, Status
from perdure.store.changes import Row
from perdure.store.interface import Session
from perdure.store.records import task_from

MOST_ROWS = 10_000
"""Most attempts, deliveries or events that are read of one task."""


@dataclass(frozen=True, slots=True)
class TaskFound:
    task: Task
    failures: Sequence[Row]
    """Its failed attempts, oldest first."""


@dataclass(slots=True)
class Totals:
    """What the tasks of a batch add up to."""

    tasks: int = 0
    status_counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SHOWN, 0))
    kinds: set[str] = field(default_factory=set)
    success: int = 0
    failures: int = 0
    expected: int = 0
    with_expected: int = 0
    first_created_at: datetime | None = None
    latest_updated_at: datetime | None = None

    def add(self, row: Row) -> None:
        """Add the tasks of one kind and status."""
        self.tasks += row["tasks"]
        self.status_counts[row["shown"]] += row["tasks"]
        self.kinds.add(row["kind"])
        first, latest = row["first_created_at"], row["latest_updated_at"]
        self.first_created_at = min(self.first_created_at or first, first)
        self.latest_updated_at = max(self.latest_updated_at or latest, latest)

    @property
    def live(self) -> int:
        """How many tasks are not over."""
        over = sum(self.status_counts[status.value] for status in TERMINAL)
        return self.tasks - over

    def add_counts(self, row: Row) -> None:
        self.success += int(row["success"])
        self.failures += int(row["failures"])
        self.expected += int(row["expected"] or 0)
        self.with_expected += row["with_expected"]


@dataclass(frozen=True, slots=True)
class Dag:
    tasks: Sequence[Row]
    links: Sequence[Row]


def may_have_failed(task: Task) -> bool:
    """Whether reading the task's failed attempts can find any."""
    return task.attempt > 0 or task.status is Status.FAILURE


async def find_task(session: Session, id: str) -> TaskFound:
    """A task and its failures; raises NotFound."""
    rows = await session.fetch("read_task", id=id)
    if not rows:
        raise NotFound("task", id)
    task = task_from(rows[0])
    return TaskFound(task, await read_failures(session, id) if may_have_failed(task) else [])


async def read_failures(session: Session, id: str) -> list[Row]:
    return await session.fetch("task_failures", id=id, most=MOST_ROWS)


async def read_attempts(session: Session, id: str) -> list[Row]:
    """Every attempt of a task that is over, oldest first; raises NotFound."""
    return await _of_known_task(session, id, await session.fetch("task_attempts", id=id, most=MOST_ROWS))


async def read_events(session: Session, id: str) -> list[Row]:
    """Every change of a task's status, oldest first; raises NotFound."""
    return await _of_known_task(session, id, await session.fetch("task_events", id=id, most=MOST_ROWS))


async def read_deliveries(session: Session, id: str) -> list[Row]:
    """The webhooks of a task, oldest first; raises NotFound."""
    # A key begins with the task's id and a colon, and the semicolon is the character after that.
    found = await session.fetch("task_deliveries", first=f"{id}:", last=f"{id};", most=MOST_ROWS)
    return await _of_known_task(session, id, found)


async def _of_known_task(session: Session, id: str, rows: list[Row]) -> list[Row]:
    if not rows and not await session.fetch("task_exists", id=id):
        raise NotFound("task", id)
    return rows


async def find_batch(session: Session, id: str) -> tuple[Row, Totals]:
    """A batch and its totals; raises NotFound."""
    rows = await session.fetch("read_batch", id=id)
    if not rows:
        raise NotFound("batch", id)
    totals = Totals()
    for row in await session.fetch("batch_totals", id=id):
        totals.add(row)
        totals.add_counts(row)
    return rows[0], totals


async def summarize_batches(session: Session, ids: Sequence[str]) -> Mapping[str, Totals]:
    """By batch: how many tasks in which status, kinds and times; not what they counted."""
    found = {id: Totals() for id in ids}
    for row in await session.fetch("summaries", [(id,) for id in ids]):
        found[row["batch_id"]].add(row)
    return found


async def read_dag(session: Session, batch_id: str) -> Dag:
    """The tasks of a batch in order, and what they wait for; both empty if there is no such batch."""
    return Dag(await session.fetch("batch_tasks", id=batch_id), await session.fetch("batch_links", id=batch_id))


async def read_pauses(session: Session) -> list[Row]:
    """The kinds and namespaces whose claims are held back."""
    return await session.fetch("list_pauses")


async def count_tasks(session: Session) -> tuple[dict[str, int], dict[str, int]]:
    """How many tasks show each status, and how many of each kind are being worked on."""
    by_status = {row["shown"]: row["tasks"] for row in await session.fetch("tasks_by_status")}
    by_kind = {row["kind"]: row["tasks"] for row in await session.fetch("running_by_kind")}
    return by_status, by_kind


async def ping(session: Session) -> None:
    """The least that shows whether the database can be read."""
    await session.fetch("ping")
