"""A task that was submitted: how it goes, and what it returned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from perdure.domain.errors import PerdureError, shown_label
from perdure.domain.model import Task
from perdure.domain.states import Status

if TYPE_CHECKING:
    from perdure.app.desk import Desk

Result = TypeVar("Result", covariant=True)

FIRST_PAUSE_SECS = 0.02
LONGEST_PAUSE_SECS = 1.0


class TaskNotSuccessful(PerdureError):
    """The task is over, and not with a success; `status` and `reason` say more."""

    def __init__(self, task: Task) -> None:
        self.task_id = task.id
        self.status = task.status.label
        self.reason = task.failure_reason
        super().__init__(f"Task {task.name!r} ({task.id}) is {self.status}: {self.reason or 'no reason given'}")


@dataclass(frozen=True, slots=True)
class TaskHandle(Generic[Result]):
    """`await handle.result()` waits for the end and gives what the function returned."""

    id: str
    batch_id: str
    _desk: Desk = field(repr=False, compare=False)
    _read_result: Callable[[Any], Any] = field(default=lambda value: value, repr=False, compare=False)

    async def task(self) -> Task:
        """Everything that is stored of the task."""
        return await self._desk.find_task(self.id)

    async def status(self) -> str:
        """As people see it: `Running`, `RetryPending`, `Success`, …"""
        task = await self.task()
        return shown_label(task.status, task.paused)

    async def wait(self, timeout: float | None = None) -> Task:
        """Wait until the task is over; raises TimeoutError if that takes longer than `timeout` seconds."""
        pause = FIRST_PAUSE_SECS
        async with asyncio.timeout(timeout):
            while (task := await self.task()).status.is_live:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, LONGEST_PAUSE_SECS)
        return task

    async def result(self, timeout: float | None = None) -> Result:
        """Wait for what the function returned; raises TaskNotSuccessful if the task ended otherwise.

        Raises NoResult if it returned something else than the function returns now.
        """
        task = await self.wait(timeout)
        if task.status is not Status.SUCCESS:
            raise TaskNotSuccessful(task)
        value: Result = self._read_result(None if task.result is None else msgspec.json.decode(task.result))
        return value

    def wait_blocking(self, timeout: float | None = None) -> Task:
        """`wait` for code that is not async."""
        return self._desk.run(self.wait(timeout))

    def result_blocking(self, timeout: float | None = None) -> Result:
        """`result` for code that is not async."""
        return self._desk.run(self.result(timeout))

    async def cancel(self) -> None:
        """End it, whatever it does; raises Conflict if it is over already."""
        await self._desk.ask(lambda commands: commands.cancel(self.id))

    async def retry(self) -> None:
        """Try it again now: drops a wait, or starts a new attempt of a task that failed or was canceled."""
        await self._desk.ask(lambda commands: commands.retry(self.id))
