"""A real PostgreSQL for tests and benchmarks.

    with PostgresServer() as server:
        url = server.create_database()

The server at `PERDURE_TEST_DATABASE_URL` is used if that is set; otherwise one is started, from programs
found by `postgres_binaries`, and removed at the end.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg

from tests.support.postgres_account import Account, PostgresUnavailable
from tests.support.postgres_binaries import Binaries, find_binaries
from tests.support.postgres_process import PostgresProcess

URL_VARIABLE = "PERDURE_TEST_DATABASE_URL"
Result = TypeVar("Result")


class PostgresServer:
    """A server on which to create databases.

    `durable=True` keeps what makes commits survive a power failure, for measurements that are to be honest.
    `binaries` names the programs to start, whatever the environment says. A server that was already running
    keeps its own settings.
    """

    def __init__(self, *, durable: bool = False, binaries: Binaries | None = None) -> None:
        self.durable = durable
        self.binaries = binaries
        self._url: str | None = None
        self._process: PostgresProcess | None = None
        self._databases: set[str] = set()

    @property
    def url(self) -> str:
        """The address of the server's own database, for administration."""
        if self._url is None:
            raise RuntimeError("This PostgresServer is not running: call start() or enter it with `with`.")
        return self._url

    def start(self) -> None:
        url = os.environ.get(URL_VARIABLE)
        if url and self.binaries is None:
            self._url = url
            self._check_connection()
            return
        account = Account.allowed_to_run_postgres()
        process = PostgresProcess(self.binaries or find_binaries(account), account, durable=self.durable)
        process.start()
        self._process = process
        self._url = f"postgresql://postgres@127.0.0.1:{process.port}/postgres"

    def stop(self) -> None:
        """Stop the server if it was started here; otherwise drop what was created on it and is left."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        elif self._url is not None:
            for url in list(self._databases):
                self.drop_database(url)
        self._databases.clear()
        self._url = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def create_database(self, *, template: str | None = None) -> str:
        """Create a database, empty or a copy of the one at the address `template`; returns its address."""
        name = f"perdure_test_{uuid4().hex}"
        original = "template0" if template is None else _database_name(template)
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{original}"')
        url = _with_database(self.url, name)
        self._databases.add(url)
        return url

    def drop_database(self, url: str) -> None:
        """Drop the database at the address, whoever is still connected to it."""
        self._execute(f'DROP DATABASE "{_database_name(url)}" WITH (FORCE)')
        self._databases.discard(url)

    def _check_connection(self) -> None:
        try:
            self._execute("SELECT 1")
        except (OSError, asyncpg.PostgresError) as error:
            self._url = None
            raise PostgresUnavailable(
                f"The server at {URL_VARIABLE} does not answer: {error}. "
                "Correct the variable, or unset it to let the tests start a PostgreSQL of their own."
            ) from error

    def _execute(self, statement: str) -> None:
        url = self.url

        async def execute() -> None:
            connection = await asyncpg.connect(url)
            try:
                await connection.execute(statement)
            finally:
                await connection.close()

        run_apart(execute())


def run_apart(work: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end in a thread of its own, because the caller may stand in a running event loop."""
    with ThreadPoolExecutor(max_workers=1) as executor:
        return executor.submit(asyncio.run, work).result()


def _database_name(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def _with_database(url: str, name: str) -> str:
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}/{name}{query}"
