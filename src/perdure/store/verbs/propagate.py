"""From the tasks that ended to those that waited for them: down the DAG, and up where work became pointless.

Runs under the lock of the batches concerned, so no other instance moves the same DAG at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perdure.domain.model import Failure
from perdure.domain.states import Status
from perdure.store.changes import Moved, Row
from perdure.store.interface import Session

DEAD_END_REASON = "all child tasks already ended"

NoteEnded = Callable[[Session, Sequence[Row], dict[str, Failure]], None]


async def propagate(session: Session, ended: Sequence[Row], note_ended: NoteEnded) -> None:
    """Carry the endings of `ended` through their DAGs, in sets, until nothing more changes."""
    wave = list(ended)
    while wave:
        failed = [row for row in wave if row["status"] in (Status.FAILURE, Status.CANCELED)]
        others = [row for row in wave if row["status"] in (Status.SUCCESS, Status.SKIPPED)]
        for row in wave:
            session.changes.count("propagations", row["status"])
        doomed = await _fail_descendants(session, failed)
        skipped = await _skip_descendants(session, others)
        note_ended(session, doomed, {})
        note_ended(session, skipped, {})
        await _release_children(session, [*wave, *doomed, *skipped])
        wave = await _cancel_dead_ends(session, [*failed, *doomed])
        note_ended(session, wave, {})


async def _fail_descendants(session: Session, failed: Sequence[Row]) -> list[Row]:
    found = await session.fetch("doomed_children", [(row["id"],) for row in failed])
    finished = {row["id"] for row in (*failed, *found)}
    doomed: dict[str, tuple[str, str, str]] = {}
    for row in found:
        # A doomed task may have other parents, which have not ended and are not to blame.
        if row["parent_id"] in finished:
            doomed.setdefault(row["id"], (row["id"], f"Parent {row['parent_name']} failed", row["parent_id"]))
    rows = await session.fetch("doom", list(doomed.values()))
    session.changes.count("failed_by_dependency", by=len(rows))
    return rows


async def _skip_descendants(session: Session, ended: Sequence[Row]) -> list[Row]:
    found = await session.fetch("skipped_children", [(row["id"], row["status"]) for row in ended])
    return await session.fetch("skip", [(row["id"],) for row in found])


async def _release_children(session: Session, ended: Sequence[Row]) -> None:
    rows = await session.fetch("release_children", [(row["id"], row["status"]) for row in ended])
    for row in rows:
        if row["status"] == Status.PENDING:
            session.changes.count("unblocked")
            session.changes.due(row["run_at"] if row["delayed"] else None)
            session.changes.moved.append(
                Moved(row["id"], row["batch_id"], row["kind"], Status.WAITING, Status.PENDING, row["attempt"])
            )


async def _cancel_dead_ends(session: Session, ended: Sequence[Row]) -> list[Row]:
    if not session.options.dead_ends:
        return []
    found = await session.fetch("dead_ends", [(row["id"],) for row in ended])
    pointless = {row["id"]: (row["id"], DEAD_END_REASON, row["via"]) for row in found}
    rows = await session.fetch("cancel", list(pointless.values()))
    session.changes.count("canceled_dead_end", by=len(rows))
    return rows
