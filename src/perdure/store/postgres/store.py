"""Connections to PostgreSQL, transactions on them, and hints between instances."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import asyncpg

from perdure.clock import Clock, SteeredClock, monotonic
from perdure.domain.errors import Unavailable
from perdure.store.interface import CommitListener, QueryListener, Result, StoreOptions, Work
from perdure.store.postgres.guest import GuestSession
from perdure.store.postgres.migrate import migrate
from perdure.store.postgres.session import ColumnTypes, PostgresSession
from perdure.store.postgres.statistics import Statistics
from perdure.store.postgres.trouble import GONE, describe_unreadable, explain
from perdure.store.record import record_changes
from perdure.store.statements import Dialect, load_statements

log = logging.getLogger("perdure.store")

CHANNEL = "perdure"
WRITE_TRIES = 6
CONNECT_TIMEOUT_SECS = 5.0
#: Longer than the server's own statement timeout: only a connection that died unnoticed comes to this.
COMMAND_TIMEOUT_SECS = 75.0
LISTEN_CHECK_SECS = 10.0
#: An id passes a dozen times while its task is worked on; to look up its other form is cheaper than to work it out.
KNOWN_IDS = 16_384

#: Transactions that lost against another one and are simply run again.
LOST_RACES = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError, asyncpg.UniqueViolationError)

#: Every statement of a transaction is meant to walk an index, whatever stale statistics say.
WRITE_SETTINGS = {
    "application_name": "perdure",
    "timezone": "UTC",
    "jit": "off",
    "synchronous_commit": "on",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "idle_in_transaction_session_timeout": "60000",
    "statement_timeout": "60000",
}
READ_SETTINGS = {"application_name": "perdure", "timezone": "UTC", "jit": "off", "statement_timeout": "30000"}


class PostgresStore:
    def __init__(self, url: str, options: StoreOptions, clock: Clock | None = None, pool_size: int = 10) -> None:
        self._url = url
        self._options = options
        self.clock: Clock = clock or SteeredClock()
        self._pool_size = pool_size
        self._statements = load_statements(Dialect.POSTGRES)
        self._types: ColumnTypes = {}
        self._statistics = Statistics()
        self._writers: asyncpg.Pool[Any] | None = None
        self._readers: asyncpg.Pool[Any] | None = None
        self._apart: asyncpg.Pool[Any] | None = None
        self._commit_listeners: list[CommitListener] = []
        self._query_listeners: list[QueryListener] = []

    def on_commit(self, listener: CommitListener) -> None:
        self._commit_listeners.append(listener)

    def on_query(self, listener: QueryListener) -> None:
        self._query_listeners.append(listener)

    async def open(self) -> None:
        try:
            await self._open()
        except (TimeoutError, asyncpg.InsufficientPrivilegeError, *GONE) as error:
            raise Unavailable(explain(self._url, error)) from error
        await self.measure_clock()

    async def _open(self) -> None:
        connection = await connect(self._url)
        try:
            await migrate(connection)
            self._types = await _read_types(connection)
        finally:
            await connection.close()
        readers = max(2, self._pool_size // 2)
        self._writers = await self._pool(max(2, self._pool_size - readers), WRITE_SETTINGS)
        self._readers = await self._pool(readers, READ_SETTINGS)
        self._apart = await self._pool(1, WRITE_SETTINGS, least=0)

    async def _pool(self, size: int, settings: dict[str, str], least: int = 1) -> asyncpg.Pool[Any]:
        return await asyncpg.create_pool(
            self._url,
            min_size=least,
            max_size=size,
            init=_prepare_connection,
            server_settings=settings,
            timeout=CONNECT_TIMEOUT_SECS,
            command_timeout=COMMAND_TIMEOUT_SECS,
            max_inactive_connection_lifetime=300,
        )

    async def close(self) -> None:
        for pool in (self._writers, self._readers, self._apart):
            if pool is not None:
                try:
                    await asyncio.wait_for(pool.close(), 5)
                except (TimeoutError, *GONE):
                    pool.terminate()
        self._writers = self._readers = self._apart = None

    async def write(self, work: Work[Result], *, apart: bool = False) -> Result:
        for attempt in range(1, WRITE_TRIES + 1):
            try:
                return await self._write_once(work, self._apart if apart else self._writers)
            except LOST_RACES as error:
                if attempt == WRITE_TRIES:
                    raise
                log.debug("transaction lost a race, running it again", extra={"fields": {"error": str(error)}})
                await asyncio.sleep(random.uniform(0, 0.005 * 2**attempt))
            except (TimeoutError, *GONE) as error:
                raise _unavailable(error) from error
        raise AssertionError("unreachable")

    async def _write_once(self, work: Work[Result], pool: asyncpg.Pool[Any] | None) -> Result:
        async with _acquire(pool) as connection:
            session = PostgresSession(
                connection, self._statements, self.clock.now(), self._options, self._observe, self._types
            )
            async with connection.transaction():
                result = await work(session)
                await record_changes(session)
                await self._statistics.look(connection, session.inserted)
        for listener in self._commit_listeners:
            listener(session.changes)
        return result

    async def write_within(self, connection: Any, work: Work[Result], topics: Sequence[str]) -> Result:
        if not isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy):
            raise TypeError(f"An asyncpg connection is needed here, not {type(connection).__name__}.")
        if not connection.is_in_transaction():
            raise ValueError("There is no transaction open on the connection: begin one, and commit it afterwards.")
        now = self.clock.now()
        session = GuestSession(connection, self._statements, now, self._options, self._observe, self._types)
        try:
            result = await work(session)
            await record_changes(session)
        except asyncpg.UndefinedTableError as error:
            raise ValueError(
                f"The connection finds no tables of perdure ({error}). It must be to the database that keeps the "
                "tasks, with the same search_path."
            ) from error
        # Sent by the database when the transaction is committed, and not at all if it is not.
        await connection.executemany("SELECT pg_notify($1, $2)", self._hints(topics))
        return result

    def write_within_blocking(self, connection: Any, work: Work[Result]) -> Result:  # noqa: ARG002
        raise TypeError(
            "On PostgreSQL a transaction of your own is one of an asyncpg connection, which needs its event loop: "
            "await submit(…) there."
        )

    async def read(self, work: Work[Result]) -> Result:
        try:
            async with _acquire(self._readers) as connection:
                session = PostgresSession(
                    connection, self._statements, self.clock.now(), self._options, self._observe, self._types
                )
                async with connection.transaction(isolation="repeatable_read", readonly=True):
                    return await work(session)
        except (TimeoutError, *GONE) as error:
            raise _unavailable(error) from error

    def _observe(self, name: str, seconds: float) -> None:
        for listener in self._query_listeners:
            listener(name, seconds)

    async def announce(self, topics: Sequence[str]) -> None:
        try:
            async with _acquire(self._readers) as connection:
                await connection.executemany("SELECT pg_notify($1, $2)", self._hints(topics))
        except (TimeoutError, *GONE) as error:
            raise _unavailable(error) from error

    def _hints(self, topics: Sequence[str]) -> list[tuple[str, str]]:
        return [(CHANNEL, f"{self._options.instance} {topic}") for topic in topics]

    async def listen(self, heard: Callable[[str], None]) -> None:
        def receive(_connection: object, _pid: int, _channel: str, payload: object) -> None:
            instance, _, topic = str(payload).rpartition(" ")
            if instance != self._options.instance:
                heard(topic)

        try:
            connection = await connect(self._url)
        except (TimeoutError, *GONE) as error:
            raise _unavailable(error) from error
        try:
            await connection.add_listener(CHANNEL, receive)
            while True:
                await asyncio.sleep(LISTEN_CHECK_SECS)
                await connection.execute("SELECT 1", timeout=CONNECT_TIMEOUT_SECS)
        except (TimeoutError, *GONE) as error:
            raise _unavailable(error) from error
        finally:
            connection.terminate()

    async def measure_clock(self) -> None:
        if not isinstance(self.clock, SteeredClock):
            return
        try:
            async with _acquire(self._readers) as connection:
                asked_at = monotonic()
                moment = await connection.fetchval("SELECT clock_timestamp()", timeout=CONNECT_TIMEOUT_SECS)
                answered_at = monotonic()
        except (TimeoutError, *GONE) as error:
            raise _unavailable(error) from error
        self.clock.follow(moment, asked_at, answered_at)


def _acquire(pool: asyncpg.Pool[Any] | None) -> asyncpg.pool.PoolAcquireContext[Any]:
    if pool is None:
        raise Unavailable("The database is not open.")
    return pool.acquire(timeout=CONNECT_TIMEOUT_SECS)


def _unavailable(error: BaseException) -> Unavailable:
    return Unavailable(f"The database does not answer: {str(error) or type(error).__name__}")


async def connect(url: str) -> asyncpg.Connection[Any]:
    """A connection of its own, outside the pools."""
    try:
        return await asyncpg.connect(url, timeout=CONNECT_TIMEOUT_SECS, server_settings={"timezone": "UTC"})
    except asyncpg.InterfaceError:
        raise
    except ValueError:
        # What could not be read may be a part of the password.
        raise Unavailable(describe_unreadable(url)) from None


async def _read_types(connection: asyncpg.Connection[Any]) -> ColumnTypes:
    rows = await connection.fetch(
        "SELECT table_name, column_name, udt_name FROM information_schema.columns WHERE table_schema = current_schema()"
    )
    return {(row["table_name"], row["column_name"]): row["udt_name"] for row in rows}


async def _prepare_connection(connection: asyncpg.Connection[Any]) -> None:
    await connection.set_type_codec(
        "uuid", schema="pg_catalog", encoder=_uuid_bytes, decoder=_uuid_text, format="binary"
    )


@lru_cache(KNOWN_IDS)
def _uuid_bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("-", ""))


@lru_cache(KNOWN_IDS)
def _uuid_text(data: bytes) -> str:
    digits = data.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
