"""Retrying by hand: a task, what ended in its wake, or everything that failed in a batch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from perdure.domain.errors import Conflict, Invalid, NotFound, PerdureError, Problem, shown_label
from perdure.domain.model import Condition
from perdure.domain.states import LIVE, Event, Status, sources
from perdure.store.changes import Moved, Row
from perdure.store.interface import Session

RETRIED_REASON = "retried by hand"

Revision = Callable[[Row], tuple[tuple[object, ...], list[Problem]]]
"""The new payload, metadata, timeout, actions, policy, lane and destination of a task, or what is wrong with them."""

_MET = {
    Condition.ON_SUCCESS: frozenset({Status.SUCCESS}),
    Condition.ON_FAILURE: frozenset({Status.FAILURE, Status.CANCELED}),
    Condition.ALWAYS: frozenset(Status) - LIVE,
}
#: Links by which a child needs its parent's work, so that the parent is no dead end while the child lives.
_NEEDING = frozenset({Condition.ON_SUCCESS, Condition.ALWAYS})


@dataclass(frozen=True, slots=True)
class RetryTask:
    task_id: str
    revise: Revision | None = None


async def retry_tasks(session: Session, items: Sequence[RetryTask]) -> list[Row | PerdureError]:
    """Try tasks again now, each with its wake; the rows are the tasks as they are afterwards."""
    return [await _retry_one(session, item) for item in items]


async def _retry_one(session: Session, item: RetryTask) -> Row | PerdureError:
    target = [(item.task_id,)]
    await session.fetch("lock_batches", target)
    rows = await session.fetch("lock_tasks", target)
    if not rows:
        return NotFound("task", item.task_id)
    row = rows[0]
    if row["status"] not in sources(Event.RETRIED_BY_HAND):
        label = shown_label(Status(row["status"]), row["paused"])
        return Conflict(
            f"The task is {label}; only a failed, canceled, parked or retrying task can be retried.",
            label,
            row["attempt"],
        )
    if item.revise is not None:
        revised, problems = item.revise(row)
        if problems:
            return Invalid(problems)
        await session.fetch("revise", [(item.task_id, *revised)])
    if row["status"] == Status.RETRY_PENDING and not row["parked"]:
        await _tell(session, await session.fetch("drop_wait", target))
    else:
        await restore(session, [item.task_id])
    return (await session.fetch("lock_tasks", target))[0]


async def retry_batch(session: Session, batch_ids: Sequence[str]) -> list[int | PerdureError]:
    """Retry everything that failed in batches, in place; how many tasks are live again."""
    results: list[int | PerdureError] = []
    for batch_id in batch_ids:
        if await session.fetch("lock_batch", batch_id=batch_id):
            failed = await session.fetch("batch_failures", batch_id=batch_id)
            results.append(await restore(session, [row["id"] for row in failed]))
        else:
            results.append(NotFound("batch", batch_id))
    return results


async def unpark(session: Session, ids: Sequence[str]) -> dict[str, Row]:
    """Give parked tasks among `ids` a new attempt with a fresh budget; the rows are what became of them."""
    found = await session.fetch("lock_tasks", [(id,) for id in sorted(set(ids))])
    parked = [(row["id"],) for row in found if row["parked"]]
    if not parked:
        return {}
    await restore(session, [id for (id,) in parked])
    return {row["id"]: row for row in await session.fetch("lock_tasks", parked)}


async def restore(session: Session, targets: Sequence[str]) -> int:
    """Give tasks a new attempt with a fresh budget, and put back what ended only because of them."""
    found = await session.fetch("ended_in_wake", [(id,) for id in targets])
    wake = {row["id"]: Status(row["status"]) for row in found}
    links = await session.fetch("parents_of", [(id,) for id in wake])
    restored = _restorable(frozenset(targets), wake, links)
    waits = _waits(wake, links, restored)
    rows = await session.fetch("restore", [(id, waits[id], id not in targets) for id in sorted(restored)])
    await _tell(session, rows)
    await session.fetch("reopen_executions", [(id,) for id in sorted({row["batch_id"] for row in rows})])
    await _recount_children(session, [row["id"] for row in rows])
    return len(rows)


def _restorable(targets: frozenset[str], wake: Mapping[str, Status], links: Iterable[Row]) -> set[str]:
    """The targets, and those of their wake whose end has no cause left once all of these live again."""
    links_below: defaultdict[str, list[Row]] = defaultdict(list)
    needed_above: defaultdict[str, list[str]] = defaultdict(list)
    needs: Counter[str] = Counter()
    stuck: list[str] = []
    for link in links:
        parent, child = link["parent_id"], link["child_id"]
        if parent in wake:
            links_below[parent].append(link)
            if link["condition"] in _NEEDING:
                needed_above[child].append(parent)
                needs[parent] += 1
        elif _forbids(link):
            stuck.append(child)
    restored = set(wake)
    while stuck:
        id = stuck.pop()
        if id in targets or id not in restored:
            continue
        restored.remove(id)
        stuck.extend(link["child_id"] for link in links_below[id] if _forbids(link))
        for parent in needed_above[id]:
            needs[parent] -= 1
            # A dead end that nobody needs again stays one.
            if needs[parent] == 0 and wake[parent] is Status.CANCELED:
                stuck.append(parent)
    return restored


def _forbids(link: Row) -> bool:
    """Whether a parent, if it stays as it is, keeps its child from ever starting."""
    status = Status(link["status"])
    return not status.is_live and status not in _MET[Condition(link["condition"])]


def _waits(wake: Mapping[str, Status], links: Iterable[Row], restored: set[str]) -> Counter[str]:
    """How many parents each restored task waits for: those that live, or live again."""
    waits: Counter[str] = Counter()
    for link in links:
        # A parked task had everything that it waited for, and never ended.
        if wake[link["child_id"]] is not Status.RETRY_PENDING:
            waits[link["child_id"]] += link["parent_id"] in restored or Status(link["status"]).is_live
    return waits


async def _recount_children(session: Session, ids: Sequence[str]) -> None:
    """Children that still wait have more to wait for again."""
    children = await session.fetch("waiting_children", [(id,) for id in ids])
    wrong = await session.fetch("recount_waits", [(row["id"],) for row in children])
    await session.fetch("correct_waits", [(row["id"], row["counted"]) for row in wrong])


async def _tell(session: Session, rows: Sequence[Row]) -> None:
    """Write down who lives again, and in the history that a person asked for it."""
    for row in rows:
        source, target = Status(row["from_status"]), Status(row["status"])
        session.changes.moved.append(
            Moved(row["id"], row["batch_id"], row["kind"], source, target, row["attempt"], RETRIED_REASON)
        )
    await session.fetch("note_retried_by_hand", [(row["id"], row["attempt"] - 1) for row in rows])
