"""The two databases on which every test of the store runs."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from perdure.clock import Clock
from perdure.store.interface import StoreOptions
from perdure.store.postgres import PostgresStore
from perdure.store.sqlite import SqliteStore
from perdure.store.statements import Dialect
from tests.support.postgres_databases import PostgresDatabases

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

    def __init__(self, databases: PostgresDatabases) -> None:
        self._databases = databases
        self.url = databases.take()

    def make_store(self, options: StoreOptions, clock: Clock, pool_size: int = 4) -> AnyStore:
        return PostgresStore(self.url, options, clock, pool_size)

    def remove(self) -> None:
        self._databases.give_back(self.url)
