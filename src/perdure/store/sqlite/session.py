"""One transaction on SQLite. Its methods are coroutines by name only: they never wait, so a thread can drive them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from perdure.clock import monotonic
from perdure.store.changes import Row
from perdure.store.interface import QueryListener, Result, Session, StoreOptions
from perdure.store.records import FLAG_COLUMNS, TIME_COLUMNS
from perdure.store.statements import Dialect, Statement

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: A transaction writes and reads the same few moments again and again.
KNOWN_MOMENTS = 4096
_encode = msgspec.json.Encoder().encode


@lru_cache(KNOWN_MOMENTS)
def to_micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


@lru_cache(KNOWN_MOMENTS)
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
            timed = [column.type == "timestamptz" for column in statement.columns]
            bound["rows"] = _encode(_bound_rows(rows, timed)).decode()
        began = monotonic()
        found = self._rows(statement.sql, bound)
        self._observe(name, monotonic() - began)
        return found

    async def query(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        began = monotonic()
        found = self._rows(sql, [_bound(value) for value in parameters])
        self._observe("listing", monotonic() - began)
        return found

    def _rows(self, sql: str, bound: Any) -> list[Row]:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        found = cursor.execute(sql, bound).fetchall()
        return read_rows(cursor.description, found) if found else []

    async def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        marks = ", ".join("?" for _ in columns)
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
        began = monotonic()
        self._connection.executemany(sql, _bound_rows(rows, [column in TIME_COLUMNS for column in columns]))
        self._observe(f"insert_{table}", monotonic() - began)


def _bound_rows(rows: Sequence[Sequence[Any]], moments: Sequence[bool]) -> Sequence[Sequence[Any]]:
    """The rows with the moments in the columns that are said to hold them as SQLite keeps them."""
    if not any(moments):
        return rows
    columns = [
        [None if value is None else to_micros(value) for value in values] if timed else values
        for values, timed in zip(zip(*rows, strict=True), moments, strict=True)
    ]
    return list(zip(*columns, strict=True))


def read_row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
    """A row as a dict, with moments and flags as such."""
    return read_rows(cursor.description, [values])[0]


def read_rows(description: Sequence[Sequence[Any]], found: Sequence[tuple[Any, ...]]) -> list[Row]:
    names = [column[0] for column in description]
    moments = [name for name in names if name in TIME_COLUMNS]
    flags = [name for name in names if name in FLAG_COLUMNS]
    rows = [dict(zip(names, values, strict=True)) for values in found]
    for row in rows:
        for name in moments:
            value = row[name]
            if value is not None:
                row[name] = from_micros(value) if type(value) is int else from_text(value)
        for name in flags:
            if row[name] is not None:
                row[name] = bool(row[name])
    return rows


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
