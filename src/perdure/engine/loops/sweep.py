"""Looks through all tasks, a page at a time, for waits that disagree with a recount."""

from __future__ import annotations

import logging

from perdure.engine.loops.loop import Loop
from perdure.store.interface import Store
from perdure.store.verbs.sweep import FIRST_ID, sweep

log = logging.getLogger("perdure.engine")

PAGE = 1000


class SweepLoop(Loop):
    """Reports what it corrects: each one is a defect that somebody should hear of."""

    name = "sweep"
    interval_secs = 10.0

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after = FIRST_ID

    async def run_once(self) -> bool:
        swept = await self._store.write(lambda session: sweep(session, self._after, PAGE))
        self._after = swept.after
        if swept.corrected:
            log.error(
                "tasks waited for the wrong number of parents; corrected, please report this",
                extra={"fields": {"tasks": swept.corrected[:20], "count": len(swept.corrected)}},
            )
        return False
