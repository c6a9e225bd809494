"""Starts webhook tasks: claims as many as can be sent at once, sends, records the answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from perdure.clock import Clock, monotonic
from perdure.domain.checks import clip
from perdure.domain.classify import classify, failure_from_answer
from perdure.domain.errors import PerdureError, Unavailable
from perdure.domain.keys import Trigger
from perdure.domain.model import Completion, Executor, Failure, FailureTrigger
from perdure.engine.accepted import cancel_params, result_of
from perdure.engine.calls import Calls, log_fields
from perdure.engine.flights import Flight, Flights, SendListener
from perdure.engine.loops.loop import Loop
from perdure.engine.wakeups import Topic, Wakeups
from perdure.engine.writer import Writer
from perdure.store.actions import actions_for
from perdure.store.changes import Row
from perdure.store.interface import Session, Store
from perdure.store.verbs.claim import Claim, claim
from perdure.store.verbs.fail import Decide
from perdure.store.verbs.start import Answered, settle_starts
from perdure.webhooks.egress import Egress
from perdure.webhooks.places import NoPlace
from perdure.webhooks.request import Sender, WebhookAnswer, WebhookRequest

log = logging.getLogger("perdure.engine")

RECORD_PAUSE_SECS = 0.5


@dataclass(frozen=True, slots=True)
class StartSettings:
    most_in_flight: int
    per_destination: int
    claim_batch: int
    claim_timeout_secs: float
    interval_secs: float
    grace_secs: float
    kinds: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    kind_limits: Mapping[str, int] = field(default_factory=dict)
    namespace_limits: Mapping[str, int] = field(default_factory=dict)
    classification: Mapping[str, str] = field(default_factory=dict)


class StartLoop(Loop):
    """Claims no more than it can send at once, so what is claimed is on its way."""

    name = "start"
    topic = Topic.START

    def __init__(
        self,
        store: Store,
        writer: Writer,
        sender: Sender,
        calls: Calls,
        egress: Egress,
        clock: Clock,
        decide: Decide,
        wakeups: Wakeups,
        settings: StartSettings,
        listener: SendListener,
    ) -> None:
        self.interval_secs = settings.interval_secs
        self._store = store
        self._writer = writer
        self._sender = sender
        self._calls = calls
        self._egress = egress.for_receivers()
        self._clock = clock
        self._decide = decide
        self._settings = settings
        self._listener = listener
        self.flights = Flights(
            settings.most_in_flight,
            settings.per_destination,
            settings.grace_secs,
            lambda: wakeups.wake(Topic.START),
            listener.in_flight,
        )

    async def run_once(self) -> bool:
        most = min(self._settings.claim_batch, self.flights.free)
        if most <= 0:
            return False
        now = self._clock.now()
        lease = timedelta(seconds=self._settings.claim_timeout_secs)
        request = Claim(
            Executor.WEBHOOK,
            most,
            lease_until=now + lease,
            stale=now - lease,
            kinds=self._settings.kinds,
            namespaces=self._settings.namespaces,
            kind_limits=self._settings.kind_limits,
            namespace_limits=self._settings.namespace_limits,
            per_destination=self.flights.per_destination,
            busy=dict(self.flights.busy),
        )
        claimed = await self._store.write(lambda session: claim(session, request))
        for row in claimed.to_start:
            self.flights.launch(partial(self._start, row), f"start {row['id']}", row["destination"])
        return bool(claimed.to_start or claimed.running)

    async def drain(self) -> None:
        """Let calls under way finish for a while; the rest keeps its key and is taken over after its lease."""
        await self.flights.drain()

    async def _start(self, row: Row, flight: Flight) -> None:
        attempt = row["attempt"]
        (params,) = actions_for(row["actions"], Trigger.START, attempt)
        request = self._calls.build(params, row["id"], Trigger.START, attempt)
        try:
            answer = await self._sender.send(request)
        except NoPlace as problem:
            log.warning(
                "an on_start call was not made; it is taken up again after its lease, with the same key",
                extra=log_fields(request, attempt=attempt, error=str(problem)),
            )
            return
        except asyncio.CancelledError:
            log.warning(
                "an on_start call was cut off by the shutdown; another instance sends it again with the same key",
                extra=log_fields(request, attempt=attempt),
            )
            raise
        except Exception:
            log.exception(
                "an on_start call failed in an unforeseen way; it is repeated after its lease, with the same key",
                extra=log_fields(request, attempt=attempt),
            )
            return
        flight.land()
        accepted = self._is_success(answer)
        self._listener.sent(Trigger.START.value, accepted, answer.duration_secs)
        await self._record(request, self._answered(row, request, answer, accepted))

    def _answered(self, row: Row, request: WebhookRequest, answer: WebhookAnswer, accepted: bool) -> Answered:
        attempt = row["attempt"]
        answered = partial(
            Answered, row["id"], attempt, answer.status, claimed_at=row["started_at"], linked=row["linked"]
        )
        if not accepted:
            failure = self._failure(answer)
            log.warning(
                "on_start was not accepted",
                extra=log_fields(request, attempt=attempt, error=failure.message, error_class=failure.error_class),
            )
            return answered(error=clip(answer.describe_fully()), failure=failure)
        if row["completion"] == Completion.RESPONSE:
            return answered(finished=True, result=result_of(answer, request))
        return answered(cancel_params=cancel_params(answer, request, self._egress))

    def _is_success(self, answer: WebhookAnswer) -> bool:
        """2xx, unless the configured table says otherwise."""
        return answer.status is not None and classify(answer.status, None, self._settings.classification) is None

    def _failure(self, answer: WebhookAnswer) -> Failure:
        return failure_from_answer(
            answer.status,
            answer.headers,
            answer.body,
            answer.error_code,
            f"on_start webhook failed: {answer.describe_fully()}",
            self._clock.now(),
            self._settings.classification,
            FailureTrigger.WEBHOOK_FAILURE,
        )

    async def _record(self, request: WebhookRequest, answered: Answered) -> None:
        """Write down what the receiver said; while the database is away, keep it and try again."""
        give_up_at = monotonic() + self._settings.claim_timeout_secs
        while True:
            try:
                await self._writer.do(self._settle, answered)
            except Unavailable:
                if monotonic() >= give_up_at:
                    log.error(
                        "the answer to on_start could not be recorded; the call is repeated with the same key",
                        extra=log_fields(request, attempt=answered.attempt),
                    )
                    return
                await asyncio.sleep(RECORD_PAUSE_SECS)
            except Exception:
                log.exception("the answer to on_start could not be recorded", extra=log_fields(request))
                return
            else:
                return

    async def _settle(self, session: Session, answers: Sequence[Answered]) -> Sequence[PerdureError | None]:
        return await settle_starts(session, answers, self._decide)
