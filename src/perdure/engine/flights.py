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
#: How many answers for each place may wait to be written down before nothing more is sent.
MOST_UNWRITTEN = 4


class SendListener(Protocol):
    """Who wants to know how calls go."""

    def sent(self, trigger: str, accepted: bool, seconds: float, /) -> None: ...

    def in_flight(self, change: int, /) -> None: ...


class Flight:
    """One call. Its place is free again once its answer is there; writing that down takes none."""

    def __init__(self, destination: str, land: Callable[[Flight], None]) -> None:
        self.destination = destination
        self._land = land
        self._flying = True

    def land(self) -> None:
        """Call it when the answer is there; done by itself at the end."""
        if self._flying:
            self._flying = False
            self._land(self)


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
        self._flying = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.busy: Counter[str] = Counter()
        """How many calls are under way to which destination."""

    def __len__(self) -> int:
        """How many are under way or being written down."""
        return len(self._tasks)

    @property
    def free(self) -> int:
        """How many more may leave now."""
        return min(self._limit - self._flying, MOST_UNWRITTEN * self._limit - len(self._tasks))

    def launch(self, call: Callable[[Flight], Coroutine[Any, Any, None]], name: str, destination: str) -> None:
        flight = Flight(destination, self._free_place)
        self._flying += 1
        self.busy[destination] += 1
        self._counted(1)
        task = asyncio.create_task(call(flight), name=name)
        self._tasks.add(task)
        task.add_done_callback(partial(self._end, flight))

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

    def _end(self, flight: Flight, task: asyncio.Task[None]) -> None:
        full = self.free <= 0
        self._tasks.discard(task)
        flight.land()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a call failed in an unforeseen way; it is repeated after its lease", exc_info=error)
        if full:
            self._landed()

    def _free_place(self, flight: Flight) -> None:
        # As long as there were places, nobody waited for one.
        full = self.free <= 0 or self.busy[flight.destination] >= self.per_destination
        self._flying -= 1
        self.busy[flight.destination] -= 1
        if not self.busy[flight.destination]:
            del self.busy[flight.destination]
        self._counted(-1)
        if full:
            self._landed()
