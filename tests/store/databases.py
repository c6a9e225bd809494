"""The two databases on which every test of the store runs."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from perdure.clock import Clock
from perdure.store.interface import StoreOptions
from perdure.store.postgres import PostgresStore
from perdure.store.postgres.migrate import migrate
from perdure.store.postgres.store import connect
from perdure.store.sqlite import SqliteStore
from perdure.store.statements import Dialect
from tests.support.postgres import PostgresServer

AnyStore = PostgresStore | SqliteStore


class Database(Protocol):
    """An empty database with the present schema, for one test."""

    dialect: Dialect

    def make_store(self, options: StoreOptions, clock: Clock, pool_size: int = 4) -> AnyStore:
        """A store on this database that is not open yet; several share what they write."""
        ...

    def remove(self) -> None: ...


class SqliteDatabase:
    dialect = Dialect.SQLITE

    def __init__(self, path: Path) -> None:
        self._path = path

    def make_store(self, options: StoreOptions, clock: Clock, pool_size: int = 4) -> AnyStore:  # noqa: ARG002
        return SqliteStore(str(self._path), options, clock)

    def remove(self) -> None:
        """The folder that holds the file is removed by whoever made it."""


class PostgresDatabase:
    dialect = Dialect.POSTGRES

    def __init__(self, server: PostgresServer, template: str) -> None:
        self._server = server
        self.url = server.create_database(template=template)

    def make_store(self, options: StoreOptions, clock: Clock, pool_size: int = 4) -> AnyStore:
        return PostgresStore(self.url, options, clock, pool_size)

    def remove(self) -> None:
        self._server.drop_database(self.url)


def create_template(server: PostgresServer) -> str:
    """The address of a database with the present schema, to be copied: much faster than migrating each."""
    url = server.create_database()

    async def bring_up() -> None:
        connection = await connect(url)
        try:
            await migrate(connection)
        finally:
            await connection.close()

    # In a thread of its own, because the caller may stand in a running event loop.
    with ThreadPoolExecutor(max_workers=1) as executor:
        executor.submit(asyncio.run, bring_up()).result()
    return url
