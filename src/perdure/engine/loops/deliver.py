"""Delivers end and cancel webhooks from the outbox, on their own schedule."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from random import Random

from perdure.clock import Clock
from perdure.domain.checks import clip, seconds_after
from perdure.domain.errors import Unavailable
from perdure.domain.keys import Trigger
from perdure.domain.requested_delay import requested_delay
from perdure.engine.calls import Calls, log_fields
from perdure.engine.flights import Flight, Flights, SendListener
from perdure.engine.loops.loop import Loop
from perdure.engine.wakeups import Topic, Wakeups
from perdure.engine.writer import Writer
from perdure.store.changes import Row
from perdure.store.interface import Store
from perdure.store.verbs.deliver import Room, Settled, next_delivery, settle_deliveries, take_deliveries
from perdure.webhooks.places import NoPlace
from perdure.webhooks.request import Sender, WebhookAnswer

log = logging.getLogger("perdure.engine")

GONE = 410
JITTER = 0.1
LONGEST_REQUESTED_SECS = 86_400.0


@dataclass(frozen=True, slots=True)
class DeliverSettings:
    most_in_flight: int
    per_destination: int
    claim_timeout_secs: float
    interval_secs: float
    grace_secs: float
    waits: Sequence[float]


class DeliverLoop(Loop):
    """Sends what is due; a row taken and never settled comes due again by itself."""

    name = "deliver"
    topic = Topic.DELIVER

    def __init__(
        self,
        store: Store,
        writer: Writer,
        sender: Sender,
        calls: Calls,
        clock: Clock,
        rng: Random,
        wakeups: Wakeups,
        settings: DeliverSettings,
        listener: SendListener,
    ) -> None:
        self.interval_secs = settings.interval_secs
        self._store = store
        self._writer = writer
        self._sender = sender
        self._calls = calls
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._listener = listener
        self.flights = Flights(
            settings.most_in_flight,
            settings.per_destination,
            settings.grace_secs,
            lambda: wakeups.wake(Topic.DELIVER),
            listener.in_flight,
        )

    async def run_once(self) -> bool:
        room = self._room()
        if room.most <= 0:
            return False
        stale = self._clock.now() + timedelta(seconds=self._settings.claim_timeout_secs)
        rows = await self._store.write(lambda session: take_deliveries(session, room, stale))
        for row in rows:
            self.flights.launch(partial(self._deliver, row), f"deliver {row['idempotency_key']}", row["destination"])
        return bool(rows)

    async def next_moment(self) -> datetime | None:
        # With no place free, a landing wakes the loop; looking earlier would be in vain.
        room = self._room()
        return await self._store.read(lambda session: next_delivery(session, room)) if room.most > 0 else None

    def _room(self) -> Room:
        return Room(self.flights.free, self.flights.per_destination, dict(self.flights.busy))

    async def drain(self) -> None:
        await self.flights.drain()

    async def _deliver(self, row: Row, flight: Flight) -> None:
        trigger = Trigger(row["condition"] if row["trigger"] == "end" else row["trigger"])
        request = self._calls.build(row["params"], row["task_id"], trigger, row["attempt"], row["action_index"])
        try:
            answer = await self._sender.send(request)
        except NoPlace as problem:
            log.warning(
                f"the {trigger.value} webhook was not sent; it comes due again with the same key",
                extra=log_fields(request, error=str(problem)),
            )
            return
        except asyncio.CancelledError:
            log.warning(
                f"the {trigger.value} webhook was cut off by the shutdown; it comes due again with the same key",
                extra=log_fields(request),
            )
            raise
        except Exception:
            log.exception(
                f"the {trigger.value} webhook failed in an unforeseen way; it comes due again with the same key",
                extra=log_fields(request),
            )
            return
        flight.land()
        self._listener.sent(trigger.value, answer.accepted, answer.duration_secs)
        settled = self._judge(row, trigger, answer)
        if not answer.accepted:
            log.warning(
                f"the {trigger.value} webhook was not accepted",
                extra=log_fields(
                    request,
                    error=answer.describe(),
                    tries=row["attempts"],
                    next_send_at=settled.next_send_at.isoformat() if settled.next_send_at else "never",
                ),
            )
        try:
            await self._writer.do(settle_deliveries, settled)
        except Unavailable as error:
            log.error(
                "a delivery could not be recorded; it is sent again with the same key",
                extra=log_fields(request, error=str(error)),
            )
        except Exception:
            log.exception(
                "a delivery could not be recorded; it is sent again with the same key", extra=log_fields(request)
            )

    def _judge(self, row: Row, trigger: Trigger, answer: WebhookAnswer) -> Settled:
        if answer.accepted:
            return Settled(row["id"], row["attempts"], trigger, "success", answer.status, None, None)
        error = clip(answer.describe_fully())
        return Settled(
            row["id"], row["attempts"], trigger, "failure", answer.status, error, self._next_send(row, answer)
        )

    def _next_send(self, row: Row, answer: WebhookAnswer) -> datetime | None:
        """When to try again: by the schedule, or later if the receiver asks for it; never after 410 Gone."""
        tries = row["attempts"]
        if answer.status == GONE or tries > len(self._settings.waits):
            return None
        now = self._clock.now()
        wait = self._settings.waits[tries - 1] * (1 + self._rng.uniform(-JITTER, JITTER))
        asked = requested_delay(answer.headers, now) or 0.0
        return seconds_after(now, max(wait, min(asked, LONGEST_REQUESTED_SECS)))
