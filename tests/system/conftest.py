"""Servers on each database, and an agent that works for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from perdure.config import Server, Settings
from tests.support.receiver import Receiver
from tests.system.agent import Agent
from tests.system.client import Client
from tests.system.server import serve


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each test runs on both databases."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/test.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:
        yield session


@pytest.fixture
async def agent(receiver: Receiver, session: aiohttp.ClientSession) -> AsyncIterator[Agent]:
    async with Agent(receiver, session) as agent:
        yield agent


@pytest.fixture
async def client(database_url: str, session: aiohttp.ClientSession) -> AsyncIterator[Client]:
    """Speaks with a server that runs on the database of this test."""
    async with serve(Settings(server=Server(database_url=database_url, shutdown_grace_secs=5))) as (url, _):
        yield Client(session, url)
