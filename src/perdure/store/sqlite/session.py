"""One transaction on SQLite. Its methods are coroutines by name only: they never wait, so a thread can drive them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from perdure.clock import monotonic
from perdure.store.changes import Row
from perdure.store.interface import QueryListener, Result, Session, StoreOptions
from perdure.store.records import FLAG_COLUMNS, TIME_COLUMNS
from perdure.store.statements import Dialect, Statement

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_encode = msgspec.json.Encoder().encode


def to_micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def from_text(text: str) -> datetime:
    """A moment as views show it to people."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _bound(value: Any) -> Any:
    return to_micros(value) if isinstance(value, datetime) else value


class SqliteSession(Session):
    dialect = Dialect.SQLITE

    def __init__(
        self,
        connection: sqlite3.Connection,
        statements: Mapping[str, Statement],
        now: datetime,
        options: StoreOptions,
        observe: QueryListener,
    ) -> None:
        super().__init__(now, options)
        self._connection = connection
        self._statements = statements
        self._observe = observe
        self._now = to_micros(now)

    async def fetch(self, name: str, rows: Sequence[Sequence[Any]] | None = None, /, **parameters: Any) -> list[Row]:
        statement = self._statements[name]
        if not statement.sql or (statement.columns and not rows):
            return []
        bound = {parameter: _bound(value) for parameter, value in parameters.items()}
        bound["now"] = self._now
        if rows is not None:
            if any(column.type == "timestamptz" for column in statement.columns):
                rows = [[_bound(value) for value in row] for row in rows]
            bound["rows"] = _encode(rows).decode()
        began = monotonic()
        found = self._connection.execute(statement.sql, bound).fetchall()
        self._observe(name, monotonic() - began)
        return found

    async def query(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        began = monotonic()
        found = self._connection.execute(sql, [_bound(value) for value in parameters]).fetchall()
        self._observe("listing", monotonic() - began)
        return found

    async def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        marks = ", ".join("?" for _ in columns)
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
        began = monotonic()
        self._connection.executemany(sql, [[_bound(value) for value in row] for row in rows])
        self._observe(f"insert_{table}", monotonic() - began)


def read_row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> dict[str, Any]:
    """Rows as dicts, with moments and flags as such."""
    row = {}
    for column, value in zip(cursor.description, values, strict=True):
        name = column[0]
        if value is not None:
            if name in TIME_COLUMNS:
                value = from_micros(value) if type(value) is int else from_text(value)
            elif name in FLAG_COLUMNS:
                value = bool(value)
        row[name] = value
    return row


def drive(work: Callable[[Session], Coroutine[Any, Any, Result]], session: Session) -> Result:
    """Run `work` to its end on this thread."""
    coroutine = work(session)
    try:
        coroutine.send(None)
    except StopIteration as finished:
        result: Result = finished.value
        return result
    coroutine.close()
    raise RuntimeError("a transaction waited for something other than the database")
