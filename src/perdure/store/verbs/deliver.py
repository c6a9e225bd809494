"""The outbox: end and cancel webhooks leave only from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from perdure.domain.errors import Conflict, NotFound
from perdure.store.changes import Row
from perdure.store.interface import Session


@dataclass(frozen=True, slots=True)
class Settled:
    """How one send went. Without a next moment the row is final."""

    id: str
    attempts: int
    trigger: str
    status: str
    http_status: int | None
    error: str | None
    next_send_at: datetime | None


async def take_deliveries(session: Session, most: int, stale: datetime) -> list[Row]:
    """Rows that are due, now ours to send until `stale`; after that, whoever comes first takes them over."""
    due = await session.fetch("due_deliveries", most=most)
    return await session.fetch(
        "take_deliveries", [(row["id"],) for row in due], stale=stale, instance=session.options.instance
    )


async def settle_deliveries(session: Session, items: Sequence[Settled]) -> list[bool]:
    """Record sends; False where somebody else took the row over meanwhile."""
    rows = await session.fetch(
        "settle_deliveries",
        [(item.id, item.attempts, item.status, item.http_status, item.error, item.next_send_at) for item in items],
    )
    settled = {row["id"] for row in rows}
    for item in items:
        session.changes.due(item.next_send_at)
        if item.next_send_at is None and item.id in settled:
            session.changes.count("webhook_executions", f"{item.trigger} {item.status}")
    return [item.id in settled for item in items]


async def next_delivery(session: Session) -> datetime | None:
    moment: datetime | None = (await session.fetch("next_delivery"))[0]["due_at"]
    return moment


async def redrive(session: Session, ids: Sequence[str]) -> list[Row | NotFound | Conflict]:
    """Make end and cancel webhooks due now, once more; those that arrived or are on their way are left alone."""
    wanted = [(id,) for id in sorted(set(ids))]
    due = {row["id"] for row in await session.fetch("redrive_deliveries", wanted)}
    rows = {row["id"]: row for row in await session.fetch("read_deliveries", wanted)}
    if due:
        session.changes.due(session.now)
    return [_redriven(id, rows.get(id), id in due) for id in ids]


def _redriven(id: str, row: Row | None, due: bool) -> Row | NotFound | Conflict:
    if row is None:
        return NotFound("delivery", id)
    if due:
        return row
    if row["trigger"] == "start":
        return Conflict("An on_start webhook is sent again by retrying its task: POST /task/{id}/retry.")
    if row["status"] == "success":
        return Conflict("The webhook was accepted already; it is not sent a second time.")
    return Conflict("The webhook is being sent right now; see how that goes.")
