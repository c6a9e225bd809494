"""A worker whose loops run when the test says so, by a clock that the test moves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

from perdure.app.application import Perdure
from perdure.app.batch import Batch
from perdure.app.task import TaskFunction
from perdure.domain.drafts import BatchDraft
from perdure.worker.worker import Worker
from tests.engine.driven import Driven


@dataclass(slots=True)
class Workshop(Driven):
    """One worker. `app` is where the functions of the test become tasks, before the first of them is worked on."""

    app: Perdure | None = None
    worker: Worker | None = None

    @property
    def hands(self) -> Worker:
        assert self.worker is not None
        return self.worker

    async def hand_in(self, function: TaskFunction[Any], *given: Any, **options: Any) -> str:
        """Submit one call; the id of the task."""
        draft = function.options(**options).draft(given, {})
        return (await self.commands.submit(BatchDraft([draft]))).tasks[0].id

    async def hand_in_batch(self, batch: Batch) -> dict[str, str]:
        """Submit a DAG; the ids by key."""
        submitted = await self.commands.submit(batch._draft)
        return {task.key: task.id for task in submitted.tasks}

    async def begin(self) -> None:
        """Hand in what is done, and begin what can be: the functions are called, but not waited for."""
        await self.hands.loop.run_once()
        await asyncio.sleep(0)

    async def work(self) -> None:
        """Run everything that can run now to its end, and write it down; what is due first."""
        await self.engine.due_loop.run_once()
        while await self.hands.loop.run_once() or len(self.hands.held) or self.hands.loop.unreported:
            await self.hands.loop.settled()

    async def pass_time(self, by: float | str) -> None:
        """Let time pass, and the engine notice: timeouts, lost workers, retries that are due. Nothing is begun."""
        self.clock.advance(by)
        await self.engine.timeout_loop.run_once()
        await self.engine.reap_loop.run_once()
        await self.engine.due_loop.run_once()

    async def show_life(self) -> None:
        """What a worker writes down by itself: leases, heartbeats and progress."""
        await self.hands.pulse.run_once()
        await self.hands.signs.run_once()


class MakeWorkshop(Protocol):
    async def __call__(
        self, other: Perdure | None = None, *, concurrency: int = 10, cpu_processes: int = 2, **sections: Any
    ) -> Workshop: ...
