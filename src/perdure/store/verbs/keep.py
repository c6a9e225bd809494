"""Forgetting what is long over, and finding what disagrees with itself."""

from __future__ import annotations

from datetime import datetime

from perdure.store.interface import Session

_TRACES = ("forget_deliveries", "forget_events", "forget_attempts", "forget_links", "forget_tasks")


async def forget_old_batches(session: Session, before: datetime, most: int) -> int:
    """Delete batches that ended before a moment, whole, a few at a time; nothing if another instance is at it.

    One with a webhook that is still to be sent is kept until that has arrived, or has been given up.
    """
    if not await session.fetch("try_lock_name", name="retention"):
        return 0
    ids = [(row["id"],) for row in await session.fetch("old_batches", before=before, most=most)]
    for trace in _TRACES:
        await session.fetch(trace, ids)
    return len(await session.fetch("forget_batches", ids))


async def forget_old_submissions(session: Session, before: datetime) -> None:
    await session.fetch("forget_submissions", before=before)
