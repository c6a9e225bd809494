"""One worker: an engine that also runs functions."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.config import Settings
from perdure.engine.service import Engine
from perdure.store.interface import Store
from perdure.worker import DEFAULT_CONCURRENCY, DEFAULT_PROCESSES
from perdure.worker.execution import Execution
from perdure.worker.handlers import Handler
from perdure.worker.held import HeldTasks
from perdure.worker.loop import SecondLoop, WorkLoop, WorkSettings
from perdure.worker.pulse import PulseLoop, PulseThread, SignLoop


class Worker:
    """Runs the functions of `handlers`, and everything else that an engine does but call webhooks."""

    def __init__(
        self,
        engine: Engine,
        handlers: Mapping[str, Handler],
        settings: Settings,
        concurrency: int = DEFAULT_CONCURRENCY,
        cpu_processes: int = DEFAULT_PROCESSES,
        pulse_store: Store | None = None,
    ) -> None:
        """With a `pulse_store`, a store of its own on the same database, leases are renewed from a thread."""
        self.engine = engine
        self.held = HeldTasks()
        self.signs = SignLoop(engine.store)
        lease_secs = settings.engine.worker_lease_secs
        self.pulse = PulseLoop(engine.store, self.held, engine.clock, lease_secs, settings.engine.worker_heartbeat_secs)
        self.loop = WorkLoop(
            engine.store,
            handlers,
            Execution(concurrency, cpu_processes),
            self.held,
            self.pulse,
            self.signs,
            engine.clock,
            engine.decide,
            engine.wakeups,
            WorkSettings(
                concurrency=concurrency,
                claim_batch=settings.engine.claim_batch,
                lease_secs=lease_secs,
                interval_secs=settings.engine.poll_interval_ms / 1000,
                grace_secs=settings.server.shutdown_grace_secs,
                namespaces=frozenset(settings.server.namespaces),
                kind_limits=settings.limits.kinds,
                namespace_limits=settings.limits.namespaces,
                classification=settings.classification,
            ),
        )
        engine.add(self.loop, SecondLoop(self.loop), self.signs)
        self._pulse_thread = None if pulse_store is None else PulseThread(self.pulse, pulse_store)
        if pulse_store is None:
            engine.add(self.pulse)

    async def start(self, webhooks: bool = False) -> None:
        if self._pulse_thread is not None:
            self._pulse_thread.start()
        await self.engine.start(webhooks=webhooks)

    async def stop(self) -> None:
        """Claim no more, finish or give back what runs, write every result."""
        try:
            await self.engine.stop()
        finally:
            if self._pulse_thread is not None:
                await self._pulse_thread.stop()
