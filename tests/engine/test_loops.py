"""What all loops have in common: they go on whatever happens, and look when there is something to see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from perdure.clock import SystemClock
from perdure.domain.errors import Unavailable
from perdure.engine.loops.loop import Loop, run_forever
from perdure.engine.wakeups import Topic, Wakeups
from perdure.store.interface import StoreOptions
from perdure.store.sqlite import SqliteStore

#: Longer than any test: who waits for it has not been woken.
FOREVER = 3600.0


@dataclass
class Scripted(Loop):
    """Does in each round what the script says next, and counts its rounds; after the script, nothing."""

    script: list[Callable[[], bool]] = field(default_factory=list)
    interval_secs: float = 0.001
    topic: Topic | None = None
    moment: datetime | None = None
    rounds: int = 0
    name: str = "scripted"

    def __post_init__(self) -> None:
        self.arrived = asyncio.Condition()

    async def run_once(self) -> bool:
        self.rounds += 1
        async with self.arrived:
            self.arrived.notify_all()
        return self.script.pop(0)() if self.script else False

    async def next_moment(self) -> datetime | None:
        return self.moment

    async def reach(self, rounds: int) -> None:
        async with asyncio.timeout(10), self.arrived:
            await self.arrived.wait_for(lambda: self.rounds >= rounds)


@pytest.fixture
def wakeups() -> Wakeups:
    return Wakeups(SqliteStore("never opened", StoreOptions("here")))


@asynccontextmanager
async def running(loop: Loop, wakeups: Wakeups) -> AsyncIterator[list[str]]:
    """While entered, the loop runs; the list holds its name for each round that was observed."""
    observed: list[str] = []
    task = asyncio.create_task(run_forever(loop, wakeups, SystemClock(), lambda name, _seconds: observed.append(name)))
    try:
        yield observed
    finally:
        task.cancel()
        await asyncio.wait([task])


def fail(error: Exception) -> Callable[[], bool]:
    def act() -> bool:
        raise error

    return act


async def test_a_failing_round_does_not_end_the_loop(wakeups: Wakeups, caplog: pytest.LogCaptureFixture) -> None:
    loop = Scripted([fail(ValueError("one bad row"))] * 3)

    async with running(loop, wakeups) as observed:
        await loop.reach(6)

    assert caplog.messages.count("a round of the loop failed; it goes on") == 3
    assert len(observed) >= 5


async def test_while_the_database_is_away_the_loop_says_so_once(
    wakeups: Wakeups, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    loop = Scripted([fail(Unavailable("away"))] * 5)

    async with running(loop, wakeups):
        await loop.reach(8)

    assert caplog.messages == ["the loop waits for the database", "the loop works again"]


async def test_when_there_is_more_the_loop_goes_on_at_once(wakeups: Wakeups) -> None:
    loop = Scripted([lambda: True] * 5, interval_secs=FOREVER)

    async with running(loop, wakeups):
        await loop.reach(6)


async def test_a_wakeup_ends_the_pause(wakeups: Wakeups) -> None:
    loop = Scripted(interval_secs=FOREVER, topic=Topic.START)

    async with running(loop, wakeups):
        await loop.reach(1)
        wakeups.wake(Topic.START)
        await loop.reach(2)


async def test_a_wakeup_during_a_round_is_not_lost(wakeups: Wakeups) -> None:
    def wake() -> bool:
        wakeups.wake(Topic.DUE)
        return False

    loop = Scripted([wake], interval_secs=FOREVER, topic=Topic.DUE)

    async with running(loop, wakeups):
        await loop.reach(2)


async def test_a_wakeup_for_another_loop_does_not_end_the_pause(wakeups: Wakeups) -> None:
    sleeping = Scripted(interval_secs=FOREVER, topic=Topic.DELIVER)
    woken = Scripted(interval_secs=FOREVER, topic=Topic.START)

    async with running(sleeping, wakeups), running(woken, wakeups):
        await sleeping.reach(1)
        await woken.reach(1)
        wakeups.wake(Topic.START)
        await woken.reach(2)

    assert sleeping.rounds == 1


async def test_the_loop_sleeps_until_the_next_moment_that_it_knows_of(wakeups: Wakeups) -> None:
    moment = SystemClock().now() + timedelta(milliseconds=50)
    loop = Scripted(interval_secs=FOREVER, topic=Topic.DUE, moment=moment)

    async with running(loop, wakeups):
        await loop.reach(2)

    assert SystemClock().now() >= moment


async def test_without_a_wakeup_the_loop_looks_after_its_interval(wakeups: Wakeups) -> None:
    loop = Scripted(interval_secs=0.01, topic=Topic.START)

    async with running(loop, wakeups):
        await loop.reach(3)


async def test_a_stop_waits_for_the_end_of_the_round(wakeups: Wakeups) -> None:
    begun, finish = asyncio.Event(), asyncio.Event()
    finished = False

    class Slow(Scripted):
        async def run_once(self) -> bool:
            nonlocal finished
            begun.set()
            await finish.wait()
            finished = True
            return False

    task = asyncio.create_task(run_forever(Slow(), wakeups, SystemClock(), lambda _name, _seconds: None))
    await begun.wait()
    task.cancel()
    finish.set()
    await asyncio.wait([task])

    assert finished
    assert task.cancelled()
