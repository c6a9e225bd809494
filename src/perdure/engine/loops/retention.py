"""Forgets batches that ended long ago."""

from __future__ import annotations

import logging
from datetime import timedelta

from perdure.clock import Clock
from perdure.engine.loops.loop import Loop
from perdure.store.interface import Session, Store
from perdure.store.verbs.keep import forget_old_batches, forget_old_submissions

log = logging.getLogger("perdure.engine")


class RetentionLoop(Loop):
    """Deletes ended batches older than `days` (0 keeps them for ever), and kept answers to submissions."""

    name = "retention"

    def __init__(
        self, store: Store, clock: Clock, days: int, answer_hours: int, chunk: int, interval_secs: float
    ) -> None:
        self.interval_secs = interval_secs
        self._store = store
        self._clock = clock
        self._days = days
        self._answer_hours = answer_hours
        self._chunk = chunk

    async def run_once(self) -> bool:
        deleted = await self._store.write(self._forget)
        if deleted:
            log.info("deleted ended batches", extra={"fields": {"batches": deleted, "older_than_days": self._days}})
        return deleted >= self._chunk

    async def _forget(self, session: Session) -> int:
        now = self._clock.now()
        await forget_old_submissions(session, now - timedelta(hours=self._answer_hours))
        if self._days == 0:
            return 0
        return await forget_old_batches(session, now - timedelta(days=self._days), self._chunk)
