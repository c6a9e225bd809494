"""A transaction on a connection that belongs to somebody else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.store.postgres.session import PostgresSession

LONGEST_INSERT = 5000
#: Types that connections are often taught to read and write in their own way, which is not ours.
_TAUGHT = frozenset({"json", "jsonb", "uuid"})


class GuestSession(PostgresSession):
    """Hands over as text what the owner of the connection may have taught it to write otherwise."""

    async def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        types = [self._types[table, name] for name in columns]
        arrays = ", ".join(
            f"${number}::{'text' if name in _TAUGHT else name}[]" for number, name in enumerate(types, 1)
        )
        values = ", ".join(f"given.c{number}::{name}" for number, name in enumerate(types, 1))
        given = ", ".join(f"c{number}" for number, _ in enumerate(types, 1))
        sql = f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM unnest({arrays}) AS given({given})"
        for start in range(0, len(rows), LONGEST_INSERT):
            await self._connection.execute(sql, *zip(*rows[start : start + LONGEST_INSERT], strict=True))
