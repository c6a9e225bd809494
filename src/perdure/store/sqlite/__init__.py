"""SQLite: one file on one machine, nothing to set up."""

from perdure.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
