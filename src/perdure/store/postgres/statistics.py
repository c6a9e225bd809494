"""Keeps the planner from taking a table for empty that has just been filled.

Autovacuum counts rows once a minute at most. What it counted before a large batch came in, in a database that had been
emptied, makes PostgreSQL expect no rows where there are thousands, and join them row by row with whatever is looked
for: the work grows with the square of the batch.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import asyncpg

#: Tables that grow by whole batches.
TABLES = ("task", "link")
#: Looking costs little; for fewer rows no plan is bad enough to be worth it.
LOOK_AFTER = 500

_EXPECTED_ROWS = """
SELECT relname, reltuples / relpages * (pg_relation_size(oid) / current_setting('block_size')::int) AS rows
FROM pg_class WHERE oid = ANY ($1::regclass[]) AND reltuples >= 0 AND relpages > 0
"""


class Statistics:
    """Counts what one instance inserts, and has rows counted anew where the planner knows of too few."""

    def __init__(self) -> None:
        self._inserted: Counter[str] = Counter()

    async def look(
        self, connection: asyncpg.Connection[Any] | asyncpg.pool.PoolConnectionProxy[Any], inserted: Counter[str]
    ) -> None:
        """Call it in the transaction that inserted these rows, so that whoever sees them is planned for them."""
        self._inserted.update(inserted)
        grown = [table for table in TABLES if self._inserted[table] >= LOOK_AFTER]
        if not grown:
            return
        # A table that was never counted is not among these: the planner goes by its size then, which is right.
        for row in await connection.fetch(_EXPECTED_ROWS, grown):
            if row["rows"] < self._inserted[row["relname"]] / 2:
                # Whoever holds it locked is counting already.
                await connection.execute(f"ANALYZE (SKIP_LOCKED) {row['relname']}")
        for table in grown:
            del self._inserted[table]
