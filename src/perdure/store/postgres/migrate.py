"""Bringing a PostgreSQL database to the present schema, with any number of instances starting at once."""

from __future__ import annotations

from typing import Any

import asyncpg

from perdure.store.migrations import Migration, missing
from perdure.store.statements import Dialect

TRIES = 5
_TABLE = """
CREATE TABLE IF NOT EXISTS schema_version (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


async def migrate(connection: asyncpg.Connection[Any]) -> list[Migration]:
    """Apply what is missing; returns it. Whoever comes second waits, and finds it done."""
    await _create_version_table(connection)
    async with connection.transaction():
        await connection.execute("LOCK TABLE schema_version IN ACCESS EXCLUSIVE MODE")
        rows = await connection.fetch("SELECT version FROM schema_version")
        steps = missing({row["version"] for row in rows}, Dialect.POSTGRES)
        for step in steps:
            await connection.execute(step.sql)
            await connection.execute(
                "INSERT INTO schema_version (version, name) VALUES ($1, $2)", step.version, step.name
            )
    return steps


async def _create_version_table(connection: asyncpg.Connection[Any]) -> None:
    for attempt in range(1, TRIES + 1):
        try:
            await connection.execute(_TABLE)
            return
        except (asyncpg.UniqueViolationError, asyncpg.DuplicateTableError, asyncpg.DuplicateObjectError):
            # Two instances created it at the same moment: IF NOT EXISTS does not shield against that.
            if attempt == TRIES:
                raise
