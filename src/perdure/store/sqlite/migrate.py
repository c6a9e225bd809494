"""Bringing a SQLite file to the present schema, with any number of processes starting at once."""

from __future__ import annotations

import sqlite3

from perdure.store.migrations import Migration, missing
from perdure.store.statements import Dialect

_TABLE = """
CREATE TABLE IF NOT EXISTS schema_version (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT
"""


def migrate(connection: sqlite3.Connection) -> list[Migration]:
    """Apply what is missing; returns it. Whoever comes second waits, and finds it done."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        connection.execute(_TABLE)
        applied = {version for (version,) in connection.execute("SELECT version FROM schema_version")}
        steps = missing(applied, Dialect.SQLITE)
        for step in steps:
            for statement in step.sql.split(";\n"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute("INSERT INTO schema_version (version, name) VALUES (?, ?)", (step.version, step.name))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return steps
