"""Progress counts: gathered in memory, written together a few times a second."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from perdure.domain.errors import NotFound, Unavailable
from perdure.engine.loops.loop import Loop
from perdure.store.interface import Session, Store
from perdure.store.verbs import change

MOST_WAITING = 50_000
MOST_KNOWN = 20_000


class Counters(Loop):
    """Adds up what `PUT /task/{id}` reports, and flushes it in one statement."""

    name = "counters"

    def __init__(self, store: Store, flush_secs: float) -> None:
        self.interval_secs = flush_secs
        self._store = store
        self._waiting: dict[str, tuple[int, int]] = {}
        self._known: OrderedDict[str, None] = OrderedDict()
        self._flushing = asyncio.Lock()

    async def add(self, task_id: str, success: int, failures: int) -> None:
        """Count soon; raises NotFound for an unknown task."""
        if task_id not in self._known:
            if not await self._store.read(lambda session: _exists(session, task_id)):
                raise NotFound("task", task_id)
            self._known[task_id] = None
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        if task_id not in self._waiting and len(self._waiting) >= MOST_WAITING:
            raise Unavailable("Too many counts are waiting to be written; try again in a moment.")
        self._gather(task_id, success, failures)

    async def run_once(self) -> bool:
        async with self._flushing:
            if not self._waiting:
                return False
            totals, self._waiting = self._waiting, {}
            rows = [(id, success, failures) for id, (success, failures) in sorted(totals.items())]
            try:
                await self._store.write(lambda session: change.count(session, rows))
            except BaseException:
                for id, success, failures in rows:
                    self._gather(id, success, failures)
                raise
        return False

    async def drain(self) -> None:
        await self.run_once()

    def _gather(self, task_id: str, success: int, failures: int) -> None:
        before = self._waiting.get(task_id, (0, 0))
        self._waiting[task_id] = (before[0] + success, before[1] + failures)


async def _exists(session: Session, task_id: str) -> bool:
    return bool(await session.fetch("task_exists", id=task_id))
