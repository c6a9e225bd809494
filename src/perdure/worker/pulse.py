"""Signs of life: of the worker, which keeps its leases, and of single tasks, which keep their time."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

from perdure.clock import Clock
from perdure.domain.errors import Unavailable
from perdure.engine.loops.loop import Loop
from perdure.store.interface import Store
from perdure.store.verbs.work import Sign, renew_leases, show_life
from perdure.worker.held import HeldTasks

log = logging.getLogger("perdure.worker")

SIGN_SECS = 0.2


class PulseLoop(Loop):
    """Renews the leases of all tasks that this worker runs, and lets go of those that were taken away."""

    name = "heartbeat"

    def __init__(self, store: Store, held: HeldTasks, clock: Clock, lease_secs: float, interval_secs: float) -> None:
        self.interval_secs = interval_secs
        self._store = store
        self._held = held
        self._clock = clock
        self._lease = timedelta(seconds=lease_secs)

    async def run_once(self) -> bool:
        asked = [held.identity for held in self._held]
        if not asked:
            return False
        until = self._clock.now() + self._lease
        kept = await self._store.write(lambda session: renew_leases(session, asked, until), apart=True)
        for identity in set(asked) - kept:
            if identity in self._held.tasks:
                log.warning(
                    "a task is no longer this worker's: it was canceled, timed out, or taken over; the work is stopped",
                    extra={"fields": {"task": identity[0], "attempt": identity[1]}},
                )
                self._held.take_away(identity)
        return False


class SignLoop(Loop):
    """Writes the heartbeats and the progress of single tasks, gathered for a moment; the last one of each counts."""

    name = "signs"
    interval_secs = SIGN_SECS

    def __init__(self, store: Store) -> None:
        self._store = store
        self._signs: dict[tuple[str, int], Sign] = {}
        self._lock = threading.Lock()

    def add(self, sign: Sign) -> None:
        """Take a sign of life, from any thread."""
        with self._lock:
            self._signs[sign.task_id, sign.attempt] = sign

    async def run_once(self) -> bool:
        with self._lock:
            signs, self._signs = self._signs, {}
        if signs:
            try:
                await self._store.write(lambda session: show_life(session, list(signs.values())), apart=True)
            except Unavailable:
                with self._lock:
                    self._signs = {**signs, **self._signs}
                raise
        return False
