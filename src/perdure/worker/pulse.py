"""Signs of life: of the worker, which keeps its leases, and of single tasks, which keep their time."""

from __future__ import annotations

import asyncio
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
        self.let_go(await self.renew(self._store))
        return False

    async def renew(self, store: Store) -> set[tuple[str, int]]:
        """Keep all tasks for longer; returns those that are no longer ours."""
        asked = [held.identity for held in self._held]
        if not asked:
            return set()
        until = self._clock.now() + self._lease
        return set(asked) - await store.write(lambda session: renew_leases(session, asked, until), apart=True)

    def let_go(self, lost: set[tuple[str, int]]) -> None:
        """Stop working on these."""
        for identity in lost:
            if identity in self._held.tasks:
                log.warning(
                    "a task is no longer this worker's: it was canceled, timed out, or taken over; the work is stopped",
                    extra={"fields": {"task": identity[0], "attempt": identity[1]}},
                )
                self._held.take_away(identity)


class PulseThread:
    """Keeps the pulse in a thread and by connections of its own.

    An async function that blocks the worker's event loop must not cost it the tasks beside: they would be run again.
    """

    def __init__(self, pulse: PulseLoop, store: Store) -> None:
        self._pulse = pulse
        self._store = store
        self._thread = threading.Thread(target=lambda: asyncio.run(self._beat()), name="heartbeat", daemon=True)
        self._stopped = threading.Event()
        self._worker: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Call it in the event loop of the worker."""
        self._worker = asyncio.get_running_loop()
        self._thread.start()

    async def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    async def _beat(self) -> None:
        is_open = False
        try:
            while not self._stopped.is_set():
                try:
                    if not is_open:
                        await self._store.open()
                        is_open = True
                    self._let_go(await self._pulse.renew(self._store))
                except Unavailable as error:
                    log.warning("leases could not be renewed yet", extra={"fields": {"error": str(error)}})
                except Exception:
                    log.exception("leases could not be renewed")
                await asyncio.to_thread(self._stopped.wait, self._pulse.interval_secs)
        finally:
            await self._store.close()

    def _let_go(self, lost: set[tuple[str, int]]) -> None:
        if lost and self._worker is not None and not self._stopped.is_set():
            self._worker.call_soon_threadsafe(self._pulse.let_go, lost)


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
