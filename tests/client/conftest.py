"""A server to talk to, in a thread of its own, so that plain code can ask it too."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.config import Server, Settings
from tests.system.server import serve


@pytest.fixture(params=["sqlite", "postgres"])
def server_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a server; each test runs on both databases."""
    database = f"sqlite:///{tmp_path}/test.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    settings = Settings(server=Server(database_url=database, shutdown_grace_secs=5))
    started = threading.Event()
    addresses: list[str] = []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        async with serve(settings) as (url, _):
            addresses.append(url)
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    assert started.wait(30)
    yield addresses[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)
    loop.close()
