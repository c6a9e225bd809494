"""Wake-ups are hints, polling is truth: they only say which loop should look now."""

from __future__ import annotations

import asyncio
import logging
from enum import StrEnum

from perdure.domain.errors import Unavailable
from perdure.domain.states import ACTIVE, PAUSED, Status
from perdure.store.changes import Changes
from perdure.store.interface import EVERYTHING, Store

log = logging.getLogger("perdure.engine")

ANNOUNCE_PAUSE_SECS = 0.01
RECONNECT_SECS = 1.0


class Topic(StrEnum):
    """What there is to look at."""

    START = "start"
    WORK = "work"
    DUE = "due"
    DELIVER = "deliver"


#: Who claims: those who start webhook tasks, and Python workers.
CLAIMING = (Topic.START, Topic.WORK)


class Wakeups:
    """Flags that loops wait on, raised by our own commits and by word from other instances."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._flags = {topic: asyncio.Event() for topic in Topic}
        self._unannounced: set[Topic] = set()
        self._announce = asyncio.Event()
        store.on_commit(self._committed)

    def wake(self, topic: Topic) -> None:
        self._flags[topic].set()

    def lower(self, topic: Topic) -> None:
        """Forget wake-ups so far: the loop is about to look."""
        self._flags[topic].clear()

    async def wait(self, topic: Topic) -> None:
        await self._flags[topic].wait()

    def _committed(self, changes: Changes) -> None:
        topics: set[Topic] = set()
        if changes.counts["released", ""] or changes.counts["resumed", ""]:
            topics.update(CLAIMING)
        for moved in changes.moved:
            # A task that is no longer active may have held the slot that a blocked one waits for.
            if moved.target is Status.PENDING or (moved.source in ACTIVE and moved.target not in ACTIVE):
                topics.update(CLAIMING)
                break
        if any(switched.shown_before == PAUSED for switched in changes.switched):
            topics.update((*CLAIMING, Topic.DUE))
        if changes.deliveries:
            topics.add(Topic.DELIVER)
        if changes.due_at is not None:
            topics.update((Topic.DUE, Topic.DELIVER))
        for topic in topics:
            self.wake(topic)
        if topics - self._unannounced:
            self._unannounced |= topics
            self._announce.set()

    async def announce_forever(self) -> None:
        """Tell other instances, a few times a second at most: one hint serves many changes."""
        while True:
            await self._announce.wait()
            await asyncio.sleep(ANNOUNCE_PAUSE_SECS)
            self._announce.clear()
            await self.announce()

    async def announce(self) -> None:
        """Tell what was not told yet."""
        topics, self._unannounced = self._unannounced, set()
        if topics:
            try:
                await self._store.announce(sorted(topics))
            except Unavailable as error:
                log.debug("a hint was not sent", extra={"fields": {"error": str(error)}})

    async def listen_forever(self) -> None:
        """Hear other instances; a broken connection is made anew, and everything looked at in between."""
        while True:
            try:
                await self._store.listen(self._heard)
            except Unavailable as error:
                log.warning(
                    "no word from other instances; polling until the connection is back",
                    extra={"fields": {"error": str(error)}},
                )
                await asyncio.sleep(RECONNECT_SECS)
                for topic in Topic:
                    self.wake(topic)

    def _heard(self, word: str) -> None:
        for topic in Topic:
            if word in (topic, EVERYTHING):
                self.wake(topic)
