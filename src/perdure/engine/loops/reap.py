"""Takes back claims whose instance is gone, and fails what a lost worker was running."""

from __future__ import annotations

import logging

from perdure.engine.loops.loop import Loop
from perdure.store.interface import Store
from perdure.store.verbs.claim import reap
from perdure.store.verbs.fail import Decide
from perdure.store.verbs.work import lose_workers

log = logging.getLogger("perdure.engine")

MOST_AT_ONCE = 1000


class ReapLoop(Loop):
    name = "reap"

    def __init__(self, store: Store, decide: Decide, interval_secs: float) -> None:
        self.interval_secs = interval_secs
        self._store = store
        self._decide = decide

    async def run_once(self) -> bool:
        count = await self._store.write(lambda session: reap(session, MOST_AT_ONCE))
        if count:
            log.warning(
                "claims ran out: their instance stopped answering; the tasks are pending again with the same key",
                extra={"fields": {"tasks": count}},
            )
        lost = await self._store.write(lambda session: lose_workers(session, MOST_AT_ONCE, self._decide))
        if lost:
            log.warning(
                "workers stopped answering; the tasks that they ran are retried by their policies",
                extra={"fields": {"tasks": len(lost), "workers": sorted({str(row["locked_by"]) for row in lost})[:20]}},
            )
        return max(count, len(lost)) >= MOST_AT_ONCE
