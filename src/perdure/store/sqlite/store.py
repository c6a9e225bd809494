"""A SQLite file: one thread writes, a few read beside it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

from perdure.clock import Clock, SystemClock
from perdure.domain.errors import Unavailable
from perdure.domain.rules import values_key
from perdure.store.changes import Changes
from perdure.store.interface import EVERYTHING, CommitListener, QueryListener, Result, Session, StoreOptions, Work
from perdure.store.record import record_changes
from perdure.store.sqlite.migrate import migrate
from perdure.store.sqlite.session import SqliteSession, drive, read_row
from perdure.store.sqlite.trouble import explain, is_trouble
from perdure.store.statements import Dialect, load_statements

OLDEST_SQLITE = (3, 38, 0)
BUSY_TIMEOUT_MS = 30_000
READERS = 4
LISTEN_SECS = 0.1

_DrivenWork = Callable[[Session], Coroutine[Any, Any, Result]]


class SqliteStore:
    def __init__(self, path: str, options: StoreOptions, clock: Clock | None = None) -> None:
        self.path = Path(path)
        self._options = options
        self.clock: Clock = clock or SystemClock()
        self._statements = load_statements(Dialect.SQLITE)
        self._writer_thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite-writer")
        self._reader_threads = ThreadPoolExecutor(READERS, thread_name_prefix="sqlite-reader")
        self._writer: sqlite3.Connection | None = None
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._commit_listeners: list[CommitListener] = []
        self._query_listeners: list[QueryListener] = []

    def on_commit(self, listener: CommitListener) -> None:
        self._commit_listeners.append(listener)

    def on_query(self, listener: QueryListener) -> None:
        self._query_listeners.append(listener)

    async def open(self) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            wanted = ".".join(str(part) for part in OLDEST_SQLITE)
            raise Unavailable(
                f"This Python has SQLite {sqlite3.sqlite_version}; perdure needs {wanted} or newer. Use PostgreSQL."
            )
        await self._on(self._writer_thread, self._open_writer)

    def _open_writer(self) -> None:
        self._writer = self._connect()
        self._writer.execute("PRAGMA journal_mode = WAL")
        migrate(self._writer)
        self._writer.row_factory = read_row

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
            timeout=BUSY_TIMEOUT_MS / 1000,
        )
        self._opened.append(connection)
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA cache_size = -65536")
        _add_functions(connection)
        return connection

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, partial(self._reader_threads.shutdown, wait=True))
        await loop.run_in_executor(None, partial(self._writer_thread.shutdown, wait=True))
        for connection in self._opened:
            connection.close()
        self._opened.clear()
        self._writer = None

    async def write(self, work: Work[Result], *, apart: bool = False) -> Result:  # noqa: ARG002 - one writer
        result: Result
        result, changes = await self._on(self._writer_thread, self._write, cast(_DrivenWork[Result], work))
        for listener in self._commit_listeners:
            listener(changes)
        return result

    def _write(self, work: _DrivenWork[Result]) -> tuple[Result, Changes]:
        if self._writer is None:
            raise Unavailable("The database is not open.")
        connection = self._writer
        connection.execute("BEGIN IMMEDIATE")
        session = SqliteSession(connection, self._statements, self.clock.now(), self._options, self._observe)
        try:
            result = drive(work, session)
            drive(record_changes, session)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result, session.changes

    async def write_within(self, connection: Any, work: Work[Result], topics: Sequence[str]) -> Result:  # noqa: ARG002
        return self.write_within_blocking(connection, work)

    def write_within_blocking(self, connection: Any, work: Work[Result]) -> Result:
        if not isinstance(connection, sqlite3.Connection):
            raise TypeError(f"A sqlite3 connection is needed here, not {type(connection).__name__}.")
        if not connection.in_transaction:
            raise ValueError("There is no transaction open on the connection: begin one, and commit it afterwards.")
        owners, connection.row_factory = connection.row_factory, read_row
        try:
            self._require_own_file(connection)
            _add_functions(connection)
            session = SqliteSession(connection, self._statements, self.clock.now(), self._options, self._observe)
            result = drive(cast(_DrivenWork[Result], work), session)
            drive(record_changes, session)
        finally:
            connection.row_factory = owners
        return result

    def _require_own_file(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute("PRAGMA database_list").fetchall()
        file = next(row["file"] for row in rows if row["name"] == "main")
        if not file or not self.path.exists() or not self.path.samefile(file):
            raise ValueError(
                f"The connection is to {file or 'a database in memory'}, but tasks are kept in {self.path}. What is to "
                "be committed together must be in one file."
            )

    async def read(self, work: Work[Result]) -> Result:
        result: Result = await self._on(self._reader_threads, self._read, cast(_DrivenWork[Result], work))
        return result

    def _read(self, work: _DrivenWork[Result]) -> Result:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            connection.row_factory = read_row
            self._local.connection = connection
        connection.execute("BEGIN")
        try:
            session = SqliteSession(connection, self._statements, self.clock.now(), self._options, self._observe)
            return drive(work, session)
        finally:
            connection.execute("ROLLBACK")

    async def _on(self, threads: ThreadPoolExecutor, work: Callable[..., Result], *arguments: object) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, work, *arguments)
        except sqlite3.DatabaseError as error:
            if not is_trouble(error):
                raise
            raise Unavailable(explain(self.path, error)) from error
        except RuntimeError as error:
            if "after shutdown" in str(error):
                raise Unavailable("The database is not open.") from error
            raise

    def _observe(self, name: str, seconds: float) -> None:
        for listener in self._query_listeners:
            listener(name, seconds)

    async def announce(self, topics: Sequence[str]) -> None:
        """Nothing to send: other processes see that the file has changed."""

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Look a few times a second whether another process has written to the file."""
        seen = await self._on(self._writer_thread, self._data_version)
        while True:
            await asyncio.sleep(LISTEN_SECS)
            version = await self._on(self._writer_thread, self._data_version)
            if version != seen:
                seen = version
                heard(EVERYTHING)

    def _data_version(self) -> int:
        """A number that changes when anybody but our own writer has written."""
        if self._writer is None:
            raise Unavailable("The database is not open.")
        cursor = self._writer.cursor()
        cursor.row_factory = None
        (version,) = cursor.execute("PRAGMA data_version").fetchone()
        return int(version)

    async def measure_clock(self) -> None:
        """The file has no clock of its own; this machine's time decides."""


def _add_functions(connection: sqlite3.Connection) -> None:
    """What our statements need beyond what SQLite has."""
    connection.create_function("metadata_has", 2, _metadata_has, deterministic=True)
    connection.create_function("metadata_values", 2, _metadata_values, deterministic=True)
    connection.create_function("json_contains", 2, _json_contains, deterministic=True)


def _metadata_has(metadata: str | None, wanted: str) -> bool:
    fields = json.loads(wanted)
    found = json.loads(metadata) if metadata else {}
    names = list(fields)
    return all(name in found for name in names) and values_key(found, names) == values_key(fields, names)


def _metadata_values(metadata: str | None, fields: str) -> str:
    return values_key(json.loads(metadata) if metadata else {}, json.loads(fields))


def _json_contains(whole: str | None, part: str) -> bool:
    return whole is not None and _contains(json.loads(whole), json.loads(part))


def _contains(whole: Any, part: Any) -> bool:
    """JSON containment as PostgreSQL's `@>` has it."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            name in whole and _contains(whole[name], value) for name, value in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and all(any(_contains(item, value) for item in whole) for value in part)
    if isinstance(whole, list | dict):
        return False
    return values_key({"value": whole}, ["value"]) == values_key({"value": part}, ["value"])
