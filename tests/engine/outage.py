"""Databases that stop answering, and come back; and some that take their time."""

from __future__ import annotations

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit, urlunsplit

import asyncpg


class Outage(ABC):
    """Between `begin` and `end` nothing can be written."""

    @abstractmethod
    async def begin(self) -> None: ...

    @abstractmethod
    async def end(self) -> None: ...


class SqliteOutage(Outage):
    """Another program holds the file's write lock, longer than anybody waits for it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._holder: sqlite3.Connection | None = None

    async def begin(self) -> None:
        self._holder = sqlite3.connect(self._path, isolation_level=None)
        self._holder.execute("BEGIN IMMEDIATE")

    async def end(self) -> None:
        if self._holder is not None:
            self._holder.close()
            self._holder = None


class PostgresOutage(Outage):
    """A network between the engine and the server that can be cut: connections break, new ones are refused."""

    def __init__(self, server_url: str) -> None:
        self._parts = urlsplit(server_url)
        self._listener: asyncio.Server | None = None
        self._port = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._copying: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.end()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.begin()

    @property
    def url(self) -> str:
        """The database as it is reached through this network."""
        user, _, _ = self._parts.netloc.rpartition("@")
        return urlunsplit(self._parts._replace(netloc=f"{user}@127.0.0.1:{self._port}"))

    async def begin(self) -> None:
        if self._listener is None:
            return
        self._listener.close()
        self._listener = None
        for task in self._copying:
            task.cancel()
        if self._copying:
            await asyncio.wait(self._copying)
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def end(self) -> None:
        self._listener = await asyncio.start_server(self._connect, "127.0.0.1", self._port)
        self._port = self._listener.sockets[0].getsockname()[1]

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        self._open.update((writer, server_writer))
        for source, target in ((reader, server_writer), (server_reader, writer)):
            task = asyncio.create_task(_copy(source, target))
            self._copying.add(task)
            task.add_done_callback(self._copying.discard)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()


@asynccontextmanager
async def held_up(database_url: str) -> AsyncIterator[None]:
    """While entered, changes to tasks wait: somebody else holds the lock that they need."""
    if database_url.startswith("sqlite:///"):
        with closing(sqlite3.connect(database_url.removeprefix("sqlite:///"), isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            yield
        return
    connection = await asyncpg.connect(database_url)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE task IN EXCLUSIVE MODE")
            yield
    finally:
        await connection.close()
