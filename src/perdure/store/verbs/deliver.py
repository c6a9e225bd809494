"""The outbox: end and cancel webhooks leave only from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from perdure.domain.destinations import NOWHERE
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


@dataclass(frozen=True, slots=True)
class Room:
    """How many calls may leave: so many in all, so many to one destination, fewer to those that are busy."""

    most: int
    places: int
    busy: Mapping[str, int] = field(default_factory=dict)
    """How many calls are under way to which destination."""

    def rows(self) -> list[tuple[str, int]]:
        """What is left for each busy destination. Rows from before there were any share nothing."""
        left = [(destination, self.places - count) for destination, count in self.busy.items() if destination]
        return [(NOWHERE, self.most), *left]


async def take_deliveries(session: Session, room: Room, stale: datetime) -> list[Row]:
    """Rows that are due, now ours to send until `stale`; after that, whoever comes first takes them over."""
    due = await session.fetch("due_deliveries", room.rows(), most=room.most, places=room.places)
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


async def next_delivery(session: Session, room: Room) -> datetime | None:
    """The earliest moment at which a webhook is due to a destination with a place for it."""
    moment: datetime | None = (await session.fetch("next_delivery", room.rows()))[0]["due_at"]
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
