"""What people do to tasks, batches and kinds: pause, resume, stop, other rules; and counting progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from perdure.domain.errors import Conflict, Invalid, NotFound, PerdureError, Problem, shown_label
from perdure.domain.rules import Rule, lane_of
from perdure.domain.states import PAUSED, Status
from perdure.store.changes import Row, Switched
from perdure.store.interface import Session
from perdure.store.verbs.end import already_ended, finish
from perdure.store.verbs.retry import unpark

STOPPED_REASON = "Batch stopped"


async def pause(session: Session, ids: Sequence[str]) -> list[Row | PerdureError]:
    return await _switch(session, ids, "pause", "is already paused")


async def resume(session: Session, ids: Sequence[str]) -> list[Row | PerdureError]:
    """Let tasks go on where they were; a parked one starts anew."""
    await session.fetch("lock_batches", [(id,) for id in ids])
    unparked = await unpark(session, ids)
    others = iter(await _switch(session, [id for id in ids if id not in unparked], "resume", "is not paused"))
    return [unparked[id] if id in unparked else next(others) for id in ids]


async def _switch(session: Session, ids: Sequence[str], statement: str, refused: str) -> list[Row | PerdureError]:
    unique = [(id,) for id in sorted(set(ids))]
    await session.fetch("lock_rows", unique)
    changed = {row["id"]: row for row in await session.fetch(statement, unique)}
    for row in changed.values():
        before, now = (row["status"], PAUSED) if row["paused"] else (PAUSED, row["status"])
        session.changes.switched.append(Switched(row["id"], row["batch_id"], before, now, row["attempt"]))
    others = [(id,) for (id,) in unique if id not in changed]
    current = {row["id"]: row for row in await session.fetch("lock_tasks", others)}
    results: list[Row | PerdureError] = []
    for id in ids:
        row = current.get(id)
        if id in changed:
            results.append(changed[id])
        elif row is None or not Status(row["status"]).is_live:
            results.append(already_ended(id, row))
        else:
            label = shown_label(Status(row["status"]), row["paused"])
            results.append(Conflict(f"The task {refused}; it is {label}.", label, row["attempt"]))
    return results


@dataclass(frozen=True, slots=True)
class Stopped:
    """What stopping a batch did, by the status that its live tasks showed."""

    batch_id: str
    canceled: Counter[str]
    already_terminal: int


async def stop_batch(session: Session, batch_ids: Sequence[str]) -> list[Stopped | PerdureError]:
    return [await _stop_one(session, batch_id) for batch_id in batch_ids]


async def _stop_one(session: Session, batch_id: str) -> Stopped | PerdureError:
    if not await session.fetch("lock_batch", batch_id=batch_id):
        return NotFound("batch", batch_id)
    await session.fetch("cancel_executions", batch_id=batch_id)
    # Once the live ones are locked, no task can slip from one count to the other.
    live = await session.fetch("batch_live_tasks", batch_id=batch_id)
    ended = await session.fetch("batch_ended_count", batch_id=batch_id)
    shown = {row["id"]: PAUSED if row["paused"] else row["status"] for row in live}
    rows = await session.fetch("cancel", [(row["id"], STOPPED_REASON, None) for row in live])
    # Everything that could be reached from here is canceled by the same statement: there is nothing to propagate.
    await finish(session, [{**dict(row), "linked": False} for row in rows])
    return Stopped(batch_id, Counter(shown[row["id"]] for row in rows), ended[0]["ended"])


ParseRules = Callable[[Row], tuple[list[Rule], list[Problem]]]
"""The new rules of one task, or why it cannot have them."""


@dataclass(frozen=True, slots=True)
class ChangeRules:
    batch_id: str
    kind: str
    parse: ParseRules


async def change_rules(session: Session, items: Sequence[ChangeRules]) -> list[int | PerdureError]:
    return [await _change_rules_once(session, item) for item in items]


async def _change_rules_once(session: Session, item: ChangeRules) -> int | PerdureError:
    if not await session.fetch("lock_batch", batch_id=item.batch_id):
        return NotFound("batch", item.batch_id)
    tasks = await session.fetch("lock_batch_kind", batch_id=item.batch_id, kind=item.kind)
    changed = []
    for row in tasks:
        rules, problems = item.parse(row)
        if problems:
            return Invalid([Problem(f"task {row['key']!r} ({row['id']})", str(problem)) for problem in problems])
        metadata = msgspec.json.decode(row["metadata"]) if row["metadata"] else {}
        lane = lane_of(row["executor"], row["namespace"], row["kind"], rules, metadata, row["destination"])
        changed.append((row["id"], msgspec.json.encode([rule.to_json() for rule in rules]).decode(), lane))
    updated = await session.fetch("change_rules", changed)
    return len(updated)


async def count(session: Session, totals: Sequence[tuple[str, int, int]]) -> None:
    """Add to the counters of tasks, in any state: `(task id, successes, failures)`, one for each task."""
    await session.fetch("lock_rows", [(id,) for id, _, _ in totals])
    await session.fetch("count", totals)


@dataclass(frozen=True, slots=True)
class Scope:
    """A kind or a namespace whose claims are held back."""

    scope: str
    name: str


async def pause_scope(session: Session, scopes: Sequence[Scope]) -> list[bool]:
    """Hold back all claims of kinds or namespaces; False for those that were held back already."""
    return [bool(await session.fetch("pause_scope", scope=one.scope, name=one.name)) for one in scopes]


async def resume_scope(session: Session, scopes: Sequence[Scope]) -> list[bool]:
    results = []
    for one in scopes:
        results.append(bool(await session.fetch("resume_scope", scope=one.scope, name=one.name)))
        session.changes.count("resumed")
    return results
