"""Fixtures for all tests."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import settings

from tests.support.postgres import PostgresServer
from tests.support.postgres_databases import PostgresDatabases
from tests.support.receiver import Receiver

# How fast a machine is says nothing about whether an example is right.
settings.register_profile("perdure", deadline=None)
settings.load_profile("perdure")


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Commands configure the logs of the whole process: the next test finds them as they were."""
    names = ["", "perdure", "uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"]
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger, logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, handlers, level, propagate in before:
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL, one for each process that runs tests."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_databases(postgres_server: PostgresServer) -> PostgresDatabases:
    return PostgresDatabases(postgres_server)


@pytest.fixture
def postgres_url(postgres_databases: PostgresDatabases) -> Iterator[str]:
    """The address of a database without tasks that only this test uses."""
    url = postgres_databases.take()
    yield url
    postgres_databases.give_back(url)


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a database in which there is nothing at all."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """An HTTP server to be called by webhooks."""
    async with Receiver() as receiver:
        yield receiver
