"""Takes back claims whose instance is gone."""

from __future__ import annotations

import logging

from perdure.engine.loops.loop import Loop
from perdure.store.interface import Store
from perdure.store.verbs.claim import reap

log = logging.getLogger("perdure.engine")

MOST_AT_ONCE = 1000


class ReapLoop(Loop):
    name = "reap"

    def __init__(self, store: Store, interval_secs: float) -> None:
        self.interval_secs = interval_secs
        self._store = store

    async def run_once(self) -> bool:
        count = await self._store.write(lambda session: reap(session, MOST_AT_ONCE))
        if count:
            log.warning(
                "claims ran out: their instance stopped answering; the tasks are pending again with the same key",
                extra={"fields": {"tasks": count}},
            )
        return count >= MOST_AT_ONCE
