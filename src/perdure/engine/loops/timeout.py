"""Fails running tasks that gave no sign of life for too long."""

from __future__ import annotations

from perdure.engine.loops.loop import Loop
from perdure.store.interface import Store
from perdure.store.verbs.fail import Decide
from perdure.store.verbs.time import time_out

MOST_AT_ONCE = 500


class TimeoutLoop(Loop):
    name = "timeout"

    def __init__(self, store: Store, decide: Decide, interval_secs: float) -> None:
        self.interval_secs = interval_secs
        self._store = store
        self._decide = decide

    async def run_once(self) -> bool:
        silent = await self._store.write(lambda session: time_out(session, MOST_AT_ONCE, self._decide))
        return silent >= MOST_AT_ONCE
