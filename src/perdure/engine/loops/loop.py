"""What every loop has in common: it looks, does what there is, and sleeps until there may be more."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime

from perdure.clock import Clock, monotonic
from perdure.domain.errors import Unavailable
from perdure.engine.wakeups import Topic, Wakeups

log = logging.getLogger("perdure.engine")

SHORTEST_PAUSE_SECS = 0.005

LoopListener = Callable[[str, float], None]


class Loop(ABC):
    """One recurring job. `run_once` does what there is to do now; tests call it themselves."""

    name: str
    topic: Topic | None = None
    interval_secs: float

    @abstractmethod
    async def run_once(self) -> bool:
        """Do what there is to do; True if there may be more right away."""

    async def next_moment(self) -> datetime | None:
        """When there will be something to do, as far as is known."""
        return None

    async def drain(self) -> None:  # noqa: B027 - most loops have nothing under way
        """Finish or give back what is under way; called once, when the engine stops."""


async def run_forever(loop: Loop, wakeups: Wakeups, clock: Clock, observe: LoopListener) -> None:
    """Run `loop` until cancelled. A failing round is told and tried again, never the end of the loop."""
    troubled = False
    while True:
        if loop.topic is not None:
            wakeups.lower(loop.topic)
        began = monotonic()
        pause = loop.interval_secs
        try:
            more = await _to_its_end(loop)
            if not more:
                pause = _until(await loop.next_moment(), clock, pause)
            if troubled:
                log.info("the loop works again", extra={"fields": {"loop": loop.name}})
                troubled = False
        except Unavailable as error:
            more = False
            if not troubled:
                log.warning(
                    "the loop waits for the database",
                    extra={"fields": {"loop": loop.name, "error": str(error)}},
                )
            troubled = True
        except Exception:
            more = False
            troubled = True
            log.exception("a round of the loop failed; it goes on", extra={"fields": {"loop": loop.name}})
        observe(loop.name, monotonic() - began)
        if more:
            await asyncio.sleep(0)
        elif loop.topic is None:
            await asyncio.sleep(pause)
        else:
            await _wait(wakeups, loop.topic, pause)


async def _to_its_end(loop: Loop) -> bool:
    """Run one round. Whoever stops the loop waits for it: what it claimed or wrote must not get lost on the way."""
    running = asyncio.create_task(loop.run_once(), name=f"{loop.name} round")
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if not running.cancelled() and (error := running.exception()) is not None:
            log.warning("the last round of the loop failed", extra={"fields": {"loop": loop.name, "error": str(error)}})
        raise


def _until(moment: datetime | None, clock: Clock, longest: float) -> float:
    if moment is None:
        return longest
    # What is due already and was not done is somebody else's right now: no reason to spin.
    return min(longest, max(SHORTEST_PAUSE_SECS, (moment - clock.now()).total_seconds()))


async def _wait(wakeups: Wakeups, topic: Topic, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await wakeups.wait(topic)
    except TimeoutError:
        pass
