"""What is said when a database file cannot be used: what is wrong with it, and what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

#: Trouble with the file, not with what it was asked for.
FILE_TROUBLE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def is_trouble(error: sqlite3.DatabaseError) -> bool:
    """Whether the database cannot be used right now, in contrast to a statement that is wrong."""
    return isinstance(error, sqlite3.OperationalError) or _code(error) in FILE_TROUBLE


def explain(path: Path, error: sqlite3.DatabaseError) -> str:
    """A sentence or two for the operator."""
    match _code(error):
        case sqlite3.SQLITE_NOTADB:
            return (
                f"The file {path} is no SQLite database. Name another one in server.database_url; if there is none "
                "yet, it is made."
            )
        case sqlite3.SQLITE_CORRUPT:
            return f"The database file {path} is damaged: {error}. Put a backup in its place."
        case sqlite3.SQLITE_READONLY:
            return f"The database file {path} is read-only. Let this user write to it, and to its folder."
        case sqlite3.SQLITE_CANTOPEN:
            return f"The database file {path} cannot be opened: {_why_not_opened(path, error)}"
        case _:
            return f"The database file {path} does not answer: {error}"


def _why_not_opened(path: Path, error: sqlite3.DatabaseError) -> str:
    if path.is_dir():
        return "it is a folder. Name a file in it in server.database_url."
    if not path.parent.is_dir():
        return f"there is no folder {path.parent.absolute()}. Make it, or name another file in server.database_url."
    return f"{error}. Check the rights of this user to the folder and the file."


def _code(error: sqlite3.DatabaseError) -> int | None:
    """Which sort of trouble it is; errors that the driver found by itself have none."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
