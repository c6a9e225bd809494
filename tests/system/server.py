"""Servers to test: an instance within the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn

from perdure.api import build_app
from perdure.assemble import Instance, make_instance
from perdure.clock import Clock
from perdure.config import Settings


class _Server(uvicorn.Server):
    """Signals are for the tests."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serve(settings: Settings, clock: Clock | None = None) -> AsyncIterator[tuple[str, Instance]]:
    """While entered, an instance works and serves at the address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1024)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        instance = make_instance(settings, url, clock=clock)
        await instance.store.open()
        app = build_app(instance.engine.commands, instance.store, instance.metrics, settings)
        config = uvicorn.Config(app, log_config=None, log_level="warning", access_log=False, lifespan="off")
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        await instance.engine.start()
        try:
            yield url, instance
        finally:
            await instance.engine.stop()
            server.should_exit = True
            await serving
            await instance.store.close()
