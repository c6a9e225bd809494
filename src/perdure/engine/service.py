"""The engine as a whole: its parts, how it starts and how it stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from uuid_utils import uuid7

from perdure.clock import Clock
from perdure.config import Settings
from perdure.domain.errors import Unavailable
from perdure.engine.calls import Calls
from perdure.engine.commands import Commands
from perdure.engine.counters import Counters
from perdure.engine.decisions import batch_decision_maker, decision_maker
from perdure.engine.flights import SendListener
from perdure.engine.intake import Intake
from perdure.engine.loops.clock import ClockLoop
from perdure.engine.loops.deliver import DeliverLoop, DeliverSettings
from perdure.engine.loops.due import DueLoop
from perdure.engine.loops.executions import ExecutionLoop
from perdure.engine.loops.loop import Loop, run_forever
from perdure.engine.loops.reap import ReapLoop
from perdure.engine.loops.retention import RetentionLoop
from perdure.engine.loops.start import StartLoop, StartSettings
from perdure.engine.loops.sweep import SweepLoop
from perdure.engine.loops.timeout import TimeoutLoop
from perdure.engine.policies import policies_from
from perdure.engine.wakeups import Wakeups
from perdure.engine.writer import Writer
from perdure.store.changes import Changes
from perdure.store.interface import Store
from perdure.webhooks.egress import Egress
from perdure.webhooks.request import Sender

log = logging.getLogger("perdure.engine")


class Listener(SendListener, Protocol):
    """Who wants to know how the engine's work goes (metrics)."""

    def loop_ran(self, loop: str, seconds: float, /) -> None: ...


def _log_notes(changes: Changes) -> None:
    for note in changes.notes:
        if log.isEnabledFor(note.level):
            log.log(note.level, note.message, extra={"fields": note.fields()})


class Engine:
    """One instance: commands for those who ask, loops for what happens by itself."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        sender: Sender,
        egress: Egress,
        settings: Settings,
        host_url: str,
        listener: Listener,
        rng: Random | None = None,
        new_id: Callable[[], str] = lambda: str(uuid7()),
    ) -> None:
        rng = rng or Random()
        policies = policies_from(settings)
        decide = decision_maker(policies.limits, rng)
        self.decide = decide
        intake = Intake(new_id, policies, egress)
        calls = Calls(host_url, settings.webhooks.timeout_secs)
        self.store = store
        self.clock = clock
        self.sender = sender
        self.writer = Writer(store, settings.engine.writer_group_limit)
        self.wakeups = Wakeups(store)
        self.counters = Counters(store, settings.engine.counter_flush_ms / 1000)
        self.commands = Commands(self.writer, intake, self.counters, clock, decide, settings.classification)
        self._listener = listener
        store.on_commit(_log_notes)

        # End and cancel webhooks have places of their own, in all and with every destination.
        deliveries = max(1, settings.webhooks.concurrency // 4)
        deliveries_to_one = max(1, settings.calls_per_destination // 4)
        poll_secs = settings.engine.poll_interval_ms / 1000
        self.start_loop = StartLoop(
            store,
            self.writer,
            sender,
            calls,
            egress,
            clock,
            decide,
            self.wakeups,
            StartSettings(
                most_in_flight=max(1, settings.webhooks.concurrency - deliveries),
                per_destination=max(1, settings.calls_per_destination - deliveries_to_one),
                claim_batch=settings.engine.claim_batch,
                claim_timeout_secs=settings.engine.claim_timeout_secs,
                interval_secs=poll_secs,
                grace_secs=settings.server.shutdown_grace_secs,
                kinds=frozenset(settings.server.kinds),
                namespaces=frozenset(settings.server.namespaces),
                kind_limits=settings.limits.kinds,
                namespace_limits=settings.limits.namespaces,
                classification=settings.classification,
            ),
            listener,
        )
        self.deliver_loop = DeliverLoop(
            store,
            self.writer,
            sender,
            calls,
            clock,
            rng,
            self.wakeups,
            DeliverSettings(
                most_in_flight=deliveries,
                per_destination=deliveries_to_one,
                claim_timeout_secs=settings.engine.claim_timeout_secs,
                interval_secs=poll_secs,
                grace_secs=settings.server.shutdown_grace_secs,
                waits=settings.webhooks.delivery_retry,
            ),
            listener,
        )
        self.due_loop = DueLoop(store, settings.retry.loop_interval_ms / 1000)
        self.timeout_loop = TimeoutLoop(store, decide, poll_secs)
        self.reap_loop = ReapLoop(store, decide, min(5.0, settings.engine.claim_timeout_secs / 4))
        self.retention_loop = RetentionLoop(
            store,
            clock,
            settings.retention.days,
            settings.server.idempotency_hours,
            settings.retention.chunk,
            settings.retention.interval_secs,
        )
        self.sweep_loop = SweepLoop(store)
        self.execution_loop = ExecutionLoop(
            store, intake, clock, batch_decision_maker(policies.limits, clock, rng), poll_secs
        )
        self._loops: list[Loop] = [
            self.start_loop,
            self.deliver_loop,
            self.due_loop,
            self.timeout_loop,
            self.reap_loop,
            self.retention_loop,
            self.sweep_loop,
            self.execution_loop,
        ]
        self._running: list[asyncio.Task[None]] = []

    def add(self, *loops: Loop) -> None:
        """Let these run along with the others."""
        self._loops.extend(loops)

    async def start(self, work: bool = True, webhooks: bool = True) -> None:
        """Start the loops; without `work` only those that commands need, without `webhooks` none that calls out."""
        calling = () if webhooks else (self.start_loop, self.deliver_loop)
        working = [loop for loop in self._loops if work and loop not in calling]
        loops: Sequence[Loop] = [self.counters, ClockLoop(self.store), *working]
        forever = [run_forever(loop, self.wakeups, self.clock, self._listener.loop_ran) for loop in loops]
        names = [loop.name for loop in loops]
        hints = [self.wakeups.announce_forever(), self.wakeups.listen_forever()]
        self._running = [
            asyncio.create_task(coroutine, name=name)
            for coroutine, name in zip([*forever, *hints], [*names, "announce", "listen"], strict=True)
        ]

    async def stop(self) -> None:
        """Stop claiming, finish what is under way, write what is gathered."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)
        self._running = []
        await asyncio.gather(*[loop.drain() for loop in self._loops])
        await self.flush()
        # The last changes of one that ends at once, such as a command, are news for others too.
        await self.wakeups.announce()
        await self.sender.close()

    async def flush(self) -> None:
        """Write what was gathered or is still being written."""
        try:
            await self.counters.drain()
        except Unavailable as error:
            log.error("the last counts could not be written", extra={"fields": {"error": str(error)}})
        await self.writer.idle()
