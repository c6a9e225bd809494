"""PostgreSQL: any number of instances share it."""

from perdure.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
