"""Engines on each database, driven by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from perdure.assemble import make_instance
from perdure.config import Server, Settings
from perdure.store.sqlite import store as sqlite_store
from perdure.testing import VirtualClock
from tests.engine.driven import HOST_URL, Driven, MakeEngine
from tests.engine.outage import Outage, PostgresOutage, SqliteOutage

#: How long a write waits for the lock of a SQLite file, where a test holds it on purpose.
IMPATIENT_MS = 50


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    """Each test runs on both."""
    name: str = request.param
    return name


@pytest.fixture
async def outage(
    database: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Outage]:
    """Lets the database of this test go away and come back."""
    if database == "sqlite":
        monkeypatch.setattr(sqlite_store, "BUSY_TIMEOUT_MS", IMPATIENT_MS)
        yield SqliteOutage(tmp_path / "test.db")
        return
    async with PostgresOutage(request.getfixturevalue("postgres_url")) as outage:
        yield outage


@pytest.fixture
def database_url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    # What can break must be in place before anything is opened.
    outage = request.getfixturevalue("outage") if "outage" in request.fixturenames else None
    if database == "sqlite":
        return f"sqlite:///{tmp_path}/test.db"
    if isinstance(outage, PostgresOutage):
        return outage.url
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def make_engine(database_url: str, clock: VirtualClock) -> AsyncIterator[MakeEngine]:
    """Opens engines on the database of this test; a section of settings by its name changes it."""
    async with AsyncExitStack() as opened:

        async def make(**sections: Any) -> Driven:
            settings = Settings(server=Server(database_url=database_url, shutdown_grace_secs=5), **sections)
            instance = make_instance(settings, HOST_URL, clock=clock)
            driven = Driven(instance, clock)
            instance.store.on_commit(driven.commits.append)
            await instance.store.open()
            opened.push_async_callback(instance.store.close)
            opened.push_async_callback(instance.engine.stop)
            return driven

        yield make


@pytest.fixture
async def driven(make_engine: MakeEngine) -> Driven:
    """One engine with the default settings."""
    return await make_engine()
