"""A worker in the simulation: works when it is told to, and can vanish in the middle of a task."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from perdure.assemble import Instance
from perdure.domain.states import Status
from perdure.store.interface import Session
from perdure.testing.sleeping import Sleepers
from perdure.worker.handlers import Handler, Mode
from perdure.worker.held import Held
from perdure.worker.worker import Worker


class StuckFunction(AssertionError):
    """A function does not come to its end, and does not wait for virtual time either."""


class SimulatedWorker:
    """`patience_secs` is real time: how long a function may take that does not sleep."""

    def __init__(
        self, instance: Instance, handlers: Mapping[str, Handler], sleepers: Sleepers, patience_secs: float
    ) -> None:
        self.instance = instance
        self._sleepers = sleepers
        self._patience_secs = patience_secs
        wrapped = {kind: _with_virtual_sleep(handler, sleepers) for kind, handler in handlers.items()}
        self._worker = Worker(instance.engine, wrapped, instance.settings)

    @property
    def busy(self) -> bool:
        """Whether functions run, asleep or not, or results are not reported yet."""
        return len(self._worker.held) > 0 or self._worker.loop.unreported > 0

    async def work(self) -> None:
        """Show signs of life, and whatever else a worker does at a moment."""
        await self._worker.pulse.run_once()
        await self._worker.signs.run_once()
        await self.settle()
        await self.take_up()

    async def take_up(self) -> None:
        """Hand in results, take tasks, and run functions until all are through or asleep."""
        await self._worker.loop.run_once()
        await self.settle()

    async def settle(self) -> None:
        """Wait until every function is through or asleep."""
        while awake := [held for held in self._worker.held if not self._is_asleep(held)]:
            self._sleepers.fell_asleep.clear()
            tasks = [held.running for held in awake if held.running is not None]
            asleep = asyncio.create_task(self._sleepers.fell_asleep.wait())
            try:
                ended, _ = await asyncio.wait(
                    [*tasks, asleep], timeout=self._patience_secs, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                asleep.cancel()
            if not ended:
                kinds = ", ".join(sorted({held.context.kind for held in awake}))
                raise StuckFunction(
                    f"{kinds} did not end within {self._patience_secs:g} s. What a task waits for must come by itself; "
                    "to let time pass in it, use asyncio.sleep, which takes no real time in a simulation."
                )

    def _is_asleep(self, held: Held) -> bool:
        return held.running is not None and not held.taken_away and self._sleepers.is_asleep(held.running)

    async def vanish(self) -> list[str]:
        """Be gone: nothing is reported. Returns the ids of the tasks whose leases have to run out now."""
        lost = await self.instance.store.read(self._held)
        tasks = [held.running for held in self._worker.held if held.running is not None]
        for held in self._worker.held:
            held.take_away()
        if tasks:
            await asyncio.wait(tasks, timeout=self._patience_secs)
        self._worker.loop._execution.close()
        await self.instance.store.close()
        return lost

    async def _held(self, session: Session) -> list[str]:
        sql = "SELECT id FROM task WHERE status = ? AND locked_by = ? ORDER BY id"
        return [str(row["id"]) for row in await session.query(sql, [Status.RUNNING, self.instance.id])]


def _with_virtual_sleep(handler: Handler, sleepers: Sleepers) -> Handler:
    if handler.mode is not Mode.LOOP:
        return handler
    return replace(handler, function=sleepers.wrap(handler.function))
