"""Keeps this instance on the database's time."""

from __future__ import annotations

from perdure.engine.loops.loop import Loop
from perdure.store.interface import Store


class ClockLoop(Loop):
    name = "clock"
    interval_secs = 30.0

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run_once(self) -> bool:
        await self._store.measure_clock()
        return False
