"""What a database's schema is, read from the database itself, in words that both databases share."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.store.interface import Session
from perdure.store.statements import Dialect

#: What SQLite keeps a type of PostgreSQL as.
SQLITE_TYPES = {
    "uuid": "TEXT",
    "text": "TEXT",
    "jsonb": "TEXT",
    "boolean": "INTEGER",
    "integer": "INTEGER",
    "bigint": "INTEGER",
    "timestamp with time zone": "INTEGER",
    "double precision": "REAL",
    "bytea": "BLOB",
}
#: Not part of the schema that is compared: each database keeps its own books there.
BOOKKEEPING = frozenset({"schema_version"})


@dataclass(frozen=True, order=True)
class Column:
    table: str
    name: str
    type: str
    required: bool


@dataclass(frozen=True, order=True)
class Index:
    table: str
    name: str
    columns: str
    unique: bool
    partial: bool


async def read_columns(session: Session) -> set[Column]:
    """Every column of every table, with the type as the database itself names it."""
    if session.dialect is Dialect.POSTGRES:
        rows = await session.query(
            "SELECT c.table_name, c.column_name, c.data_type, c.is_nullable = 'NO' AS required"
            " FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)"
            " WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'",
            [],
        )
    else:
        rows = await session.query(
            "SELECT t.name AS table_name, c.name AS column_name, c.type AS data_type,"
            ' (c."notnull" OR c.pk > 0) AS required FROM sqlite_schema t JOIN pragma_table_info(t.name) c'
            " WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'",
            [],
        )
    return {
        Column(row["table_name"], row["column_name"], row["data_type"], bool(row["required"]))
        for row in rows
        if row["table_name"] not in BOOKKEEPING
    }


async def read_indexes(session: Session) -> set[Index]:
    """Every index that was given a name; those behind keys are there by the keys."""
    if session.dialect is Dialect.POSTGRES:
        rows = await session.query(
            "SELECT t.relname AS table_name, i.relname AS index_name, x.indisunique AS is_unique,"
            " x.indpred IS NOT NULL AS is_partial,"
            " (SELECT string_agg(a.attname || CASE WHEN (x.indoption[k.n - 1] & 1) = 1 THEN ' DESC' ELSE '' END, ', '"
            "  ORDER BY k.n) FROM unnest(x.indkey) WITH ORDINALITY AS k(attnum, n)"
            "  JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum) AS columns"
            " FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid"
            " JOIN pg_namespace n ON n.oid = t.relnamespace WHERE n.nspname = 'public'"
            " AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.oid)",
            [],
        )
    else:
        rows = await session.query(
            'SELECT t.name AS table_name, i.name AS index_name, i."unique" AS is_unique, i.partial AS is_partial,'
            " (SELECT group_concat(k.name || CASE WHEN k.\"desc\" THEN ' DESC' ELSE '' END, ', ')"
            "  FROM pragma_index_xinfo(i.name) k WHERE k.key) AS columns"
            " FROM sqlite_schema t JOIN pragma_index_list(t.name) i WHERE t.type = 'table' AND i.origin = 'c'",
            [],
        )
    return {
        Index(row["table_name"], row["index_name"], row["columns"], bool(row["is_unique"]), bool(row["is_partial"]))
        for row in rows
        if row["table_name"] not in BOOKKEEPING
    }


async def read_keys(session: Session) -> set[tuple[str, str]]:
    """Every primary key and unique constraint, as table and columns."""
    if session.dialect is Dialect.POSTGRES:
        rows = await session.query(
            "SELECT t.relname AS table_name, (SELECT string_agg(a.attname, ', ' ORDER BY k.n)"
            "  FROM unnest(c.conkey) WITH ORDINALITY AS k(attnum, n)"
            "  JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum) AS columns"
            " FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid JOIN pg_namespace n ON n.oid = t.relnamespace"
            " WHERE n.nspname = 'public' AND c.contype IN ('p', 'u')",
            [],
        )
        found = {(row["table_name"], row["columns"]) for row in rows}
    else:
        tables = await session.query(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'", []
        )
        found = set()
        for table in tables:
            name = table["name"]
            key = await session.query("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", [name])
            found.add((name, ", ".join(row["name"] for row in key)))
            for index in await session.query("SELECT name FROM pragma_index_list(?) WHERE origin = 'u'", [name]):
                columns = await session.query("SELECT name FROM pragma_index_info(?) ORDER BY seqno", [index["name"]])
                found.add((name, ", ".join(row["name"] for row in columns)))
    return {(table, columns) for table, columns in found if table not in BOOKKEEPING}


async def read_views(session: Session) -> set[tuple[str, str]]:
    """Every column of every view, as view and column."""
    if session.dialect is Dialect.POSTGRES:
        rows = await session.query(
            "SELECT c.table_name, c.column_name FROM information_schema.columns c"
            " JOIN information_schema.views v USING (table_schema, table_name) WHERE c.table_schema = 'public'",
            [],
        )
    else:
        rows = await session.query(
            "SELECT v.name AS table_name, c.name AS column_name FROM sqlite_schema v JOIN pragma_table_info(v.name) c"
            " WHERE v.type = 'view'",
            [],
        )
    return {(row["table_name"], row["column_name"]) for row in rows}
