"""One transaction on PostgreSQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import asyncpg

from perdure.clock import monotonic
from perdure.store.changes import Row
from perdure.store.interface import QueryListener, Session, StoreOptions
from perdure.store.statements import Dialect, Statement

LONGEST_INSERT = 500

ColumnTypes = Mapping[tuple[str, str], str]
"""The type of each (table, column)."""


class PostgresSession(Session):
    dialect = Dialect.POSTGRES

    def __init__(
        self,
        connection: asyncpg.Connection[Any] | asyncpg.pool.PoolConnectionProxy[Any],
        statements: Mapping[str, Statement],
        now: datetime,
        options: StoreOptions,
        observe: QueryListener,
        types: ColumnTypes,
    ) -> None:
        super().__init__(now, options)
        self._connection = connection
        self._statements = statements
        self._observe = observe
        self._types = types
        self.inserted: Counter[str] = Counter()
        """How many rows went into each table."""

    async def fetch(self, name: str, rows: Sequence[Sequence[Any]] | None = None, /, **parameters: Any) -> list[Row]:
        statement = self._statements[name]
        if not statement.sql or (statement.columns and not rows):
            return []
        parameters["now"] = self.now
        if rows is not None:
            for column, values in zip(statement.columns, zip(*rows, strict=True), strict=True):
                parameters[f"rows_{column.name}"] = values
        began = monotonic()
        found = await self._connection.fetch(
            statement.sql, *[parameters[parameter] for parameter in statement.parameters]
        )
        self._observe(name, monotonic() - began)
        return found

    async def query(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        parts = sql.split("?")
        numbered = parts[0] + "".join(f"${number}{part}" for number, part in enumerate(parts[1:], 1))
        began = monotonic()
        found = await self._connection.fetch(numbered, *parameters)
        self._observe("listing", monotonic() - began)
        return found

    async def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        began = monotonic()
        if len(rows) > LONGEST_INSERT:
            await self._connection.copy_records_to_table(table, records=rows, columns=columns)
        else:
            # COPY asks for the table's types each time; for few rows a prepared statement is faster.
            sql = _insert_statement(table, tuple(columns), tuple(self._types[table, name] for name in columns))
            await self._connection.execute(sql, *zip(*rows, strict=True))
        self._observe(f"insert_{table}", monotonic() - began)
        self.inserted[table] += len(rows)


@cache
def _insert_statement(table: str, columns: tuple[str, ...], types: tuple[str, ...]) -> str:
    arrays = ", ".join(f"${number}::{column_type}[]" for number, column_type in enumerate(types, 1))
    return f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM unnest({arrays})"
