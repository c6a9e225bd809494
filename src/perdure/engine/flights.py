"""Calls under way: a bounded number at a time, each one accounted for until it has landed."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

log = logging.getLogger("perdure.engine")

CANCEL_SECS = 5.0


class SendListener(Protocol):
    """Who wants to know how calls go."""

    def sent(self, trigger: str, accepted: bool, seconds: float, /) -> None: ...

    def in_flight(self, change: int, /) -> None: ...


class Flights:
    """At most `limit` calls at a time, and `per_destination` of them to one destination.

    `landed` is called when a place becomes free where none was, `counted` with +1 and -1 for each call.
    """

    def __init__(
        self,
        limit: int,
        per_destination: int,
        grace_secs: float,
        landed: Callable[[], None],
        counted: Callable[[int], None],
    ) -> None:
        self._limit = limit
        self.per_destination = per_destination
        self._grace_secs = grace_secs
        self._landed = landed
        self._counted = counted
        self._tasks: set[asyncio.Task[None]] = set()
        self.busy: Counter[str] = Counter()
        """How many calls are under way to which destination."""

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def free(self) -> int:
        """How many more may leave now."""
        return self._limit - len(self._tasks)

    def launch(self, call: Coroutine[Any, Any, None], name: str, destination: str) -> None:
        task = asyncio.create_task(call, name=name)
        self._tasks.add(task)
        self.busy[destination] += 1
        self._counted(1)
        task.add_done_callback(partial(self._arrive, destination))

    async def settled(self) -> None:
        """Wait until all have landed."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def drain(self) -> None:
        """Let calls finish for a while, then cut them off."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._grace_secs)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CANCEL_SECS)

    def _arrive(self, destination: str, task: asyncio.Task[None]) -> None:
        full = self.free <= 0 or self.busy[destination] >= self.per_destination
        self._tasks.discard(task)
        self.busy[destination] -= 1
        if not self.busy[destination]:
            del self.busy[destination]
        self._counted(-1)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a call failed in an unforeseen way; it is repeated after its lease", exc_info=error)
        # As long as there were places, nobody waited for one.
        if full:
            self._landed()
