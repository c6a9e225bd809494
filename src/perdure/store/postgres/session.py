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

FEW_ROWS = 500
LONGEST_INSERT = 5000

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
            first, *others = zip(*rows, strict=True)
            parameters[f"rows_{statement.columns[0].name}"] = first
            for column, values in zip(statement.columns[1:], others, strict=True):
                # A shorter array is filled up with NULL: a column without values need not be handed over.
                parameters[f"rows_{column.name}"] = () if values.count(None) == len(values) else values
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
        arrays, scalars = _apart(rows)
        if len(rows) > LONGEST_INSERT or (len(rows) > FEW_ROWS and arrays.count(()) < len(columns) / 2):
            await self._connection.copy_records_to_table(table, records=rows, columns=columns)
        else:
            # COPY asks for the table's types each time, and takes what is the same in all rows from each of them.
            sql = _insert_statement(table, tuple(columns), tuple(self._types[table, name] for name in columns))
            await self._connection.execute(sql, *arrays, *scalars)
        self._observe(f"insert_{table}", monotonic() - began)
        self.inserted[table] += len(rows)


def _apart(rows: Sequence[Sequence[Any]]) -> tuple[list[Sequence[Any]], list[Any]]:
    """The values of each column but the first as an array, or, where all rows have the same one, as a single value."""
    first, *others = zip(*rows, strict=True)
    same = [values.count(values[0]) == len(values) for values in others]
    arrays = [() if alike else values for values, alike in zip(others, same, strict=True)]
    scalars = [values[0] if alike else None for values, alike in zip(others, same, strict=True)]
    return [first, *arrays], scalars


@cache
def _insert_statement(table: str, columns: tuple[str, ...], types: tuple[str, ...]) -> str:
    """Takes an array for each column, then a single value for each but the first, for the columns without an array."""
    names = [f"given.c{number}" for number in range(len(columns))]
    arrays = ", ".join(f"${number}::{column_type}[]" for number, column_type in enumerate(types, 1))
    # Where the arrays are of unequal lengths, unnest fills up with NULL.
    values = [
        f"coalesce({name}, ${number}::{column_type})"
        for number, (name, column_type) in enumerate(zip(names[1:], types[1:], strict=True), len(columns) + 1)
    ]
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join([names[0], *values])} "
        f"FROM unnest({arrays}) AS given({', '.join(f'c{number}' for number in range(len(columns)))})"
    )
