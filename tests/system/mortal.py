"""A program for the tests of crashes: the server, which kills itself at one point in the life of a webhook.

Started with the point, the trigger of the webhook, and the arguments of `perdure`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NoReturn
from unittest.mock import patch

from perdure.cli import main
from perdure.engine.loops import deliver, start
from perdure.engine.writer import Writer
from perdure.store.interface import Session
from perdure.store.postgres import store as postgres_store
from perdure.store.record import record_changes
from perdure.store.sqlite import store as sqlite_store
from perdure.store.verbs.claim import Claim, Claimed, claim
from perdure.store.verbs.deliver import Settled
from perdure.store.verbs.start import Answered
from perdure.webhooks.request import WebhookAnswer, WebhookRequest
from perdure.webhooks.sender import HttpSender


class Point(StrEnum):
    """Where a server may die, in the order of events."""

    BEFORE_THE_ROW = "before the row"
    """The transaction that writes the row is not committed."""
    AFTER_THE_ROW = "after the row"
    """The row is there, and nothing was sent."""
    DURING_THE_SEND = "during the send"
    """The receiver has the request. When that is, the test knows best: it kills."""
    AFTER_THE_ANSWER = "after the answer"
    """Before the transaction that records it."""
    BEFORE_THE_RECORD = "before the record"
    """The transaction that records it is not committed."""
    AFTER_THE_RECORD = "after the record"


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives this")


def die_before_the_row(trigger: str) -> None:
    async def claim_and_die(session: Session, request: Claim) -> Claimed:
        claimed = await claim(session, request)
        return die() if claimed.to_start else claimed

    async def record_and_die(session: Session) -> None:
        await record_changes(session)
        if any(delivery.trigger == trigger for delivery in session.changes.deliveries):
            die()

    if trigger == "start":
        patch.object(start, "claim", claim_and_die).start()
    else:
        patch.object(sqlite_store, "record_changes", record_and_die).start()
        patch.object(postgres_store, "record_changes", record_and_die).start()


def die_around_the_send(trigger: str, point: Point) -> None:
    send = HttpSender.send

    async def send_and_die(self: HttpSender, request: WebhookRequest) -> WebhookAnswer:
        if request.trigger != trigger:
            return await send(self, request)
        if point is Point.AFTER_THE_ANSWER:
            await send(self, request)
        die()

    patch.object(HttpSender, "send", send_and_die).start()


def die_before_the_record(trigger: str) -> None:
    module: Any = start if trigger == "start" else deliver
    name = "settle_starts" if trigger == "start" else "settle_deliveries"
    settle = getattr(module, name)

    async def settle_and_die(session: Session, items: Sequence[Answered | Settled], *more: Any) -> Any:
        settled = await settle(session, items, *more)
        return die() if any(trigger_of(item) == trigger for item in items) else settled

    patch.object(module, name, settle_and_die).start()


def die_after_the_record(trigger: str) -> None:
    do = Writer.do

    async def do_and_die(self: Writer, verb: Any, item: Any) -> Any:
        result = await do(self, verb, item)
        return die() if trigger_of(item) == trigger else result

    patch.object(Writer, "do", do_and_die).start()


def trigger_of(item: object) -> str | None:
    """Which webhook is recorded, if one is."""
    if isinstance(item, Answered):
        return "start"
    return item.trigger if isinstance(item, Settled) else None


def arm(point: Point, trigger: str) -> None:
    match point:
        case Point.BEFORE_THE_ROW:
            die_before_the_row(trigger)
        case Point.AFTER_THE_ROW | Point.AFTER_THE_ANSWER:
            die_around_the_send(trigger, point)
        case Point.BEFORE_THE_RECORD:
            die_before_the_record(trigger)
        case Point.AFTER_THE_RECORD:
            die_after_the_record(trigger)
        case Point.DURING_THE_SEND:
            pass


if __name__ == "__main__":
    arm(Point(sys.argv[1]), sys.argv[2])
    del sys.argv[1:3]
    main()
