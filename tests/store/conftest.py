"""Every test of the store runs on SQLite and on PostgreSQL, and leaves a database that agrees with itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from perdure.store.interface import StoreOptions
from perdure.store.statements import Dialect
from perdure.testing import VirtualClock
from tests.store.audit import audit
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase
from tests.store.scenario import Scenario
from tests.support.postgres_databases import PostgresDatabases


@pytest.fixture(params=list(Dialect), ids=str)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database; a test that takes it runs once on each kind."""
    database: Database
    if request.param is Dialect.SQLITE:
        database = SqliteDatabase(tmp_path / "perdure.db")
    else:
        database = PostgresDatabase(request.getfixturevalue("postgres_databases"))
    yield database
    database.remove()


@pytest.fixture
def postgres_database(postgres_databases: PostgresDatabases) -> Iterator[PostgresDatabase]:
    """For what only several instances at once can show: PostgreSQL alone."""
    database = PostgresDatabase(postgres_databases)
    yield database
    database.remove()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def scenario(database: Database, clock: VirtualClock) -> AsyncIterator[Scenario]:
    """One instance on an empty database. What it left behind is audited."""
    scenario = Scenario(database, clock, StoreOptions("here"))
    await scenario.open()
    try:
        yield scenario
        await audit(scenario.store)
    finally:
        await scenario.close()


@pytest.fixture
async def postgres_scenario(postgres_database: PostgresDatabase, clock: VirtualClock) -> AsyncIterator[Scenario]:
    """The same on PostgreSQL alone."""
    scenario = Scenario(postgres_database, clock, StoreOptions("here"))
    await scenario.open()
    try:
        yield scenario
        await audit(scenario.store)
    finally:
        await scenario.close()
