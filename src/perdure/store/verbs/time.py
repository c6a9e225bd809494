"""What happens because time passes: timeouts, delayed tasks, retries that are due."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from perdure.domain.model import ErrorClass, Failure, FailureTrigger
from perdure.domain.states import Status
from perdure.store.changes import Moved, Row
from perdure.store.interface import Session
from perdure.store.verbs.fail import Decide, settle_failures

TIMED_OUT = Failure(FailureTrigger.TIMEOUT, ErrorClass.RETRYABLE, "Timeout")


async def time_out(session: Session, most: int, decide: Decide) -> int:
    """Fail running tasks that gave no sign of life for too long; each is looked at again under its lock."""
    found = await session.fetch("timed_out", most=most)
    ids = [(row["id"],) for row in sorted(found, key=lambda row: str(row["id"]))]
    await session.fetch("lock_batches", ids)
    locked = await session.fetch("lock_tasks", ids)
    silent = [row for row in locked if _is_silent(row, session.now)]
    await settle_failures(session, [(row, TIMED_OUT) for row in silent], decide)
    return len(silent)


def _is_silent(row: Row, now: datetime) -> bool:
    times_out_at = row["times_out_at"]
    return row["status"] == Status.RUNNING and times_out_at is not None and bool(times_out_at <= now)


async def release_due(session: Session, most: int) -> int:
    """Make claimable what waited for its moment: delayed tasks and retries."""
    delayed = await session.fetch("due_tasks", most=most)
    released = await session.fetch("release_delayed", [(row["id"],) for row in delayed])
    session.changes.count("released", by=len(released))
    due = await session.fetch("due_retries", most=most)
    retried = await release_retries(session, {row["id"]: row["next_retry_at"] for row in due})
    return len(released) + len(retried)


async def release_retries(session: Session, moments: dict[str, datetime]) -> list[Row]:
    """Make retries claimable whose moments, by task, have come."""
    retried = await session.fetch("release_retries", [(id,) for id in moments])
    for row in retried:
        session.changes.moved.append(
            Moved(row["id"], row["batch_id"], row["kind"], Status.RETRY_PENDING, Status.PENDING, row["attempt"])
        )
    session.changes.lateness.extend(_lateness(retried, moments, session.now))
    return retried


def _lateness(rows: Sequence[Row], moments: dict[str, datetime], now: datetime) -> list[float]:
    return [(now - moments[row["id"]]).total_seconds() for row in rows]


async def next_due(session: Session) -> datetime | None:
    """The earliest moment at which something becomes due."""
    moment: datetime | None = (await session.fetch("next_due"))[0]["due_at"]
    return moment
