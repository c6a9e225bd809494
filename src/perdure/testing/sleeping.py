"""`asyncio.sleep` in virtual time, for the functions that a simulated worker runs and for nobody else."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from perdure.clock import Clock

_real_sleep = asyncio.sleep


@dataclass(slots=True, eq=False)
class _Sleep:
    until: datetime
    run: _Run
    over: asyncio.Future[None]


@dataclass(slots=True, eq=False)
class _Run:
    """One call of a function, with everything that it started."""

    sleepers: Sleepers
    loop: asyncio.AbstractEventLoop
    sleeping: int = 0


#: The call that the running code belongs to.
_run: ContextVar[_Run | None] = ContextVar("simulated_run", default=None)


@dataclass(slots=True)
class Sleepers:
    """Who sleeps, and until when."""

    clock: Clock
    fell_asleep: asyncio.Event = field(default_factory=asyncio.Event)
    _sleeps: list[_Sleep] = field(default_factory=list)
    _runs: dict[asyncio.Task[Any], _Run] = field(default_factory=dict)

    def wrap(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """The same function, whose sleeps take virtual time only."""

        @functools.wraps(function)
        async def run(**arguments: Any) -> Any:
            task = asyncio.current_task()
            assert task is not None
            self._runs[task] = _Run(self, asyncio.get_running_loop())
            token = _run.set(self._runs[task])
            try:
                return await function(**arguments)
            finally:
                _run.reset(token)
                del self._runs[task]

        return run

    def is_asleep(self, task: asyncio.Task[Any]) -> bool:
        """Whether the function that runs in this task waits for virtual time to pass."""
        run = self._runs.get(task)
        return run is not None and run.sleeping > 0

    @property
    def next_moment(self) -> datetime | None:
        return min((sleep.until for sleep in self._sleeps), default=None)

    def wake_due(self) -> int:
        """Wake those whose moment has come, the earliest first; how many those were."""
        now = self.clock.now()
        due = sorted((sleep for sleep in self._sleeps if sleep.until <= now), key=lambda sleep: sleep.until)
        for sleep in due:
            self._end(sleep)
            if not sleep.over.done():
                sleep.over.set_result(None)
        return len(due)

    async def sleep(self, run: _Run, seconds: float) -> None:
        sleep = _Sleep(self.clock.now() + timedelta(seconds=seconds), run, run.loop.create_future())
        self._sleeps.append(sleep)
        run.sleeping += 1
        self.fell_asleep.set()
        try:
            await sleep.over
        finally:
            self._end(sleep)

    def _end(self, sleep: _Sleep) -> None:
        if sleep in self._sleeps:
            self._sleeps.remove(sleep)
            sleep.run.sleeping -= 1


@functools.wraps(_real_sleep)
async def _sleep(delay: float, result: Any = None) -> Any:
    run = _run.get()
    # What a function does in the event loop of another thread is not for us to stop.
    if run is None or delay <= 0 or asyncio.get_running_loop() is not run.loop:
        return await _real_sleep(delay, result)
    await run.sleepers.sleep(run, delay)
    return result


class VirtualSleep:
    """While any is in force, `asyncio.sleep` looks who calls it."""

    _count = 0

    def begin(self) -> None:
        VirtualSleep._count += 1
        asyncio.sleep = _sleep

    def end(self) -> None:
        VirtualSleep._count -= 1
        if VirtualSleep._count == 0:
            asyncio.sleep = _real_sleep
