"""Databases with the present schema that are used, emptied and used again: much faster than a new one for each test."""

from __future__ import annotations

from asyncpg import Connection

from perdure.store.postgres.migrate import migrate
from perdure.store.postgres.store import connect
from tests.support.postgres import PostgresServer, run_apart

#: One that has grown beyond this is not worth emptying.
LARGEST_BYTES = 24 * 2**20
#: What these hold belongs to the schema.
KEPT = ("lock", "schema_version")

_DISCONNECT_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
_SCHEMA = """
SELECT string_agg(relname, ' ' ORDER BY relname) || (SELECT max(version) FROM schema_version)
  FROM pg_class WHERE relnamespace = 'public'::regnamespace
"""


class PostgresDatabases:
    """Lends databases of one server. What is given back is empty, or gone if it is too large or its schema changed."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._free: list[str] = []
        self._template = server.create_database()
        self._schema, tables = run_apart(_bring_up(self._template))
        self._empty = "".join(f'DELETE FROM "{table}";' for table in tables if table not in KEPT)

    def take(self) -> str:
        """The address of a database that nobody else uses."""
        return self._free.pop() if self._free else self._server.create_database(template=self._template)

    def give_back(self, url: str) -> None:
        if run_apart(self._make_empty(url)):
            self._free.append(url)
        else:
            self._server.drop_database(url)

    async def _make_empty(self, url: str) -> bool:
        connection = await connect(url)
        try:
            await connection.execute(_DISCONNECT_OTHERS)
            size = await connection.fetchval("SELECT pg_database_size(current_database())")
            if size > LARGEST_BYTES or await connection.fetchval(_SCHEMA) != self._schema:
                return False
            await connection.execute(f"{self._empty} ALTER SEQUENCE event_seq_seq RESTART;")
            return True
        finally:
            await connection.close()


async def _bring_up(url: str) -> tuple[str, list[str]]:
    """What the schema is, and its tables."""
    connection: Connection = await connect(url)
    try:
        await migrate(connection)
        return await connection.fetchval(_SCHEMA), [row["tablename"] for row in await connection.fetch(_TABLES)]
    finally:
        await connection.close()
