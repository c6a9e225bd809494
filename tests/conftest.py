"""Fixtures for all tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import settings

from tests.support.postgres import PostgresServer
from tests.support.receiver import Receiver

# How fast a machine is says nothing about whether an example is right.
settings.register_profile("perdure", deadline=None)
settings.load_profile("perdure")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL, one for each process that runs tests."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of an empty database that only this test uses."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """An HTTP server to be called by webhooks."""
    async with Receiver() as receiver:
        yield receiver
