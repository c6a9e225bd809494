"""Makes claimable what waited for its moment, when the moment comes."""

from __future__ import annotations

from datetime import datetime

from perdure.engine.loops.loop import Loop
from perdure.engine.wakeups import Topic
from perdure.store.interface import Store
from perdure.store.verbs.time import next_due, release_due

MOST_AT_ONCE = 1000


class DueLoop(Loop):
    """Releases delayed tasks and due retries; sleeps until the earliest of them."""

    name = "due"
    topic = Topic.DUE

    def __init__(self, store: Store, interval_secs: float) -> None:
        self.interval_secs = interval_secs
        self._store = store

    async def run_once(self) -> bool:
        return await self._store.write(lambda session: release_due(session, MOST_AT_ONCE)) >= MOST_AT_ONCE

    async def next_moment(self) -> datetime | None:
        return await self._store.read(next_due)
