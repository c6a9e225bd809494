"""Runs the loops of the engine and of the workers, moment after moment."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from random import Random

from perdure.app.application import Perdure
from perdure.assemble import Instance, make_egress, make_instance
from perdure.config import Settings
from perdure.config.signing import decode_signing_secrets
from perdure.testing.borrowed_app import BorrowedApp
from perdure.testing.clock import VirtualClock
from perdure.testing.haste import open_in_haste
from perdure.testing.ids import CountedIds
from perdure.testing.moments import next_moment
from perdure.testing.scripted_sender import Receivers, ScriptedSender
from perdure.testing.sleeping import Sleepers, VirtualSleep
from perdure.testing.timeline import Journal
from perdure.testing.workers import SimulatedWorker
from perdure.webhooks.signing import Signer

#: Most that may happen without time passing, in rounds of all loops.
MOST_ROUNDS = 10_000
ENGINE = "engine"


class NeverIdle(AssertionError):
    """Things go on happening without an end in sight."""


class Driver:
    """The parts of a simulation that move."""

    def __init__(
        self,
        settings: Settings,
        clock: VirtualClock,
        random: Random,
        receivers: Receivers,
        journal: Journal,
        patience_secs: float,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._random = random
        self._new_id = CountedIds(clock)
        self._journal = journal
        self._patience_secs = patience_secs
        self._egress = make_egress(settings, settings.callback_url())
        signer = Signer(decode_signing_secrets(settings.webhooks.signing_secrets, settings.secrets), clock)
        self._sender = ScriptedSender(receivers, self._egress, signer)
        self._sleepers = Sleepers(clock)
        self._virtual_sleep = VirtualSleep()
        self._instance = self._make_instance(ENGINE)
        self._workers: dict[Perdure, SimulatedWorker] = {}
        self._workers_made = 0
        self._borrowed: list[BorrowedApp] = []
        self.commands = self._instance.engine.commands

    def _make_instance(self, name: str) -> Instance:
        settings = replace(self._settings, server=replace(self._settings.server, instance_id=name))
        instance = make_instance(
            settings,
            settings.callback_url(),
            self._sender,
            self._clock,
            egress=self._egress,
            rng=self._random,
            new_id=self._new_id,
        )
        instance.store.on_commit(self._journal.committed)
        return instance

    async def open(self) -> None:
        await open_in_haste(self._instance)
        self._virtual_sleep.begin()

    async def close(self) -> None:
        self._virtual_sleep.end()
        for worker in self._workers.values():
            await worker.vanish()
        for borrowed in self._borrowed:
            await borrowed.close()
        await self._sender.close()
        await self._instance.engine.stop()
        await self._instance.store.close()

    async def use(self, app: Perdure) -> None:
        """Take the submissions of `app`, and run its functions."""
        if app in self._workers:
            return
        instance = self._make_instance(f"app-{len(self._borrowed) + 1}")
        borrowed = BorrowedApp(app, instance)
        await borrowed.open()
        self._borrowed.append(borrowed)
        await self._hire(app)

    async def _hire(self, app: Perdure) -> None:
        self._workers_made += 1
        instance = self._make_instance(f"worker-{self._workers_made}")
        await open_in_haste(instance)
        handlers = {kind: task.handler for kind, task in app.kinds.items()}
        self._workers[app] = SimulatedWorker(instance, handlers, self._sleepers, self._patience_secs)

    async def kill_workers(self) -> list[str]:
        """Let every worker vanish in the middle of its work, and put others in their place; the ids of what is lost."""
        lost: list[str] = []
        if not any(worker.busy for worker in self._workers.values()):
            await self._instance.engine.due_loop.run_once()
            for worker in self._workers.values():
                await worker.take_up()
        for app, worker in list(self._workers.items()):
            lost += await worker.vanish()
            await self._hire(app)
        return lost

    async def run_due(self) -> None:
        """Everything that happens at this moment."""
        engine = self._instance.engine
        # What comes at the very moment at which somebody's time is over comes in time.
        self._sleepers.wake_due()
        await self._exchange_calls()
        for worker in self._workers.values():
            await worker.settle()
            await worker.work()
        for loop in (engine.timeout_loop, engine.reap_loop):
            while await loop.run_once():
                pass
        for _ in range(MOST_ROUNDS):
            before = self._journal.changes
            answered = await self._run_round()
            if self._journal.changes == before and not answered:
                return
        raise NeverIdle(f"at {self._clock.now()} things go on happening without any time passing")

    async def tidy_up(self) -> None:
        """Forget what is too old to be kept."""
        while await self._instance.engine.retention_loop.run_once():
            pass
        await self._instance.engine.sweep_loop.run_once()

    async def _run_round(self) -> bool:
        """One look of every loop that can find more although no time passed; whether calls were answered."""
        engine = self._instance.engine
        for worker in self._workers.values():
            await worker.work()
        await engine.due_loop.run_once()
        await engine.execution_loop.run_once()
        await engine.start_loop.run_once()
        await engine.deliver_loop.run_once()
        return await self._exchange_calls()

    async def _exchange_calls(self) -> bool:
        """Let every call get as far as it gets at this moment; whether any was answered."""
        engine = self._instance.engine
        answered = False
        while True:
            # Each call is waiting for its answer here, or has its answer and is being recorded.
            while len(engine.start_loop.flights) + len(engine.deliver_loop.flights) > self._sender.waiting:
                await engine.writer.idle()
                await _one_turn()
            if not self._sender.answer_due():
                return answered
            answered = True

    async def next_moment(self) -> datetime | None:
        """When the next thing happens; None if nothing ever will."""
        alive = [worker.instance.id for worker in self._workers.values()]
        stored = await self._instance.store.read(lambda session: next_moment(session, alive))
        known = (stored, self._sender.next_moment, self._sleepers.next_moment)
        return min((moment for moment in known if moment is not None), default=None)


async def _one_turn() -> None:
    """Let everybody else in this event loop come one step further."""
    await asyncio.sleep(0)
