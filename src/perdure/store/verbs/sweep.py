"""The sweeper: looks for waits that disagree with a recount, and corrects them. A healthy system has none."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.domain.states import Status
from perdure.store.changes import Moved
from perdure.store.interface import Session

FIRST_ID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class Swept:
    """What one page of the sweep found: the ids of corrected tasks, and where the next page begins."""

    corrected: list[str]
    after: str


async def sweep(session: Session, after: str, most: int) -> Swept:
    """Recount the waits of one page of tasks. What disagrees is counted again under the lock of its batch."""
    page = await session.fetch("sweep_page", after=after, most=most)
    waiting = [(row["id"],) for row in page if row["status"] == Status.WAITING]
    wrong = [(row["id"],) for row in await session.fetch("recount_waits", waiting)]
    corrected = []
    if wrong:
        await session.fetch("lock_batches", wrong)
        recounted = await session.fetch("recount_waits", wrong)
        corrected = await session.fetch("correct_waits", [(row["id"], row["counted"]) for row in recounted])
        for row in corrected:
            if row["status"] == Status.PENDING:
                moved = (row["id"], row["batch_id"], row["kind"], Status.WAITING, Status.PENDING, row["attempt"])
                session.changes.moved.append(Moved(*moved, "released by the sweeper"))
    end_of_table = len(page) < most
    return Swept([row["id"] for row in corrected], FIRST_ID if end_of_table else page[-1]["id"])
