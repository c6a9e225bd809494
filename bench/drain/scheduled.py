"""Tasks for next month, a great many of them: copies of one, made within the database."""

from __future__ import annotations

import contextlib
import sqlite3

import asyncpg

#: How a copy differs: each is the only task of its batch, and each is due a second after the last.
_POSTGRES = {
    "id": "('0190a000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid",
    "batch_id": "('0190b000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid",
    "run_at": "run_at + n * interval '1 second'",
}
_SQLITE = {
    "id": "printf('0190a000-0000-7000-8000-%012x', n)",
    "batch_id": "printf('0190b000-0000-7000-8000-%012x', n)",
    "run_at": "run_at + n * 1000000",
}


async def multiply(url: str, count: int) -> None:
    """Add this many copies of the only task in the database."""
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file, file:
            numbers = f"WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count})"
            for table in ("batch", "task"):
                names = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
                file.execute(_copy(table, names, _SQLITE, f"{numbers} SELECT", "s"))
        return
    connection = await asyncpg.connect(url)
    try:
        for table in ("batch", "task"):
            found = await connection.fetch(
                "SELECT column_name FROM information_schema.columns WHERE table_name = $1", table
            )
            names = [row["column_name"] for row in found]
            series = f"generate_series(1, {count}) AS s(n)"
            await connection.execute(_copy(table, names, _POSTGRES, "SELECT", series), timeout=3600)
    finally:
        await connection.close()


def _copy(table: str, names: list[str], changes: dict[str, str], select: str, series: str) -> str:
    values = [changes.get(_changed(table, name), name) for name in names]
    return f"INSERT INTO {table} ({', '.join(names)}) {select} {', '.join(values)} FROM {table} CROSS JOIN {series}"


def _changed(table: str, name: str) -> str:
    return "batch_id" if (table, name) == ("batch", "id") else name
