"""How a database would run the statements of the engine, read from EXPLAIN, in words that both databases share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perdure.store.interface import Session
from perdure.store.statements import Dialect

#: Tables that grow; reading all of one is a mistake.
BIG = ("batch", "task", "link", "task_attempt", "event", "webhook_execution")
_SQLITE_STEP = re.compile(
    r"(SCAN|SEARCH) (\S+)(?: USING (?:AUTOMATIC )?(?:COVERING |PARTIAL )*INDEX (\S+))?(?: \((.*)\))?"
)
_SQLITE_KEYS = {
    "sqlite_autoindex_webhook_execution_2": "webhook_execution_idempotency_key_key",
    **{f"sqlite_autoindex_{table}_1": f"{table}_pkey" for table in BIG},
}
#: What SQLite calls things that are no tables of the schema: rows handed in, and what a statement builds by itself.
_SQLITE_SMALL = re.compile(
    r"CONSTANT|json_each|lanes|whom|doomed|skipped|climb|freed|moments|input|\(subquery-\d+\)|pause"
)


@dataclass(frozen=True)
class Step:
    """One way into a big table: through an index or not, by a condition or from its beginning."""

    table: str
    index: str | None
    by_condition: bool


@dataclass(frozen=True)
class Plan:
    steps: tuple[Step, ...]
    text: str

    @property
    def indexes(self) -> set[str | None]:
        return {step.index for step in self.steps}


Ask = tuple[Sequence[Sequence[Any]] | None, Mapping[str, Any]]


async def explain(session: Session, name: str, ask: Ask) -> Plan:
    """The plan of a statement for these very rows and parameters."""
    statements: Mapping[str, Any] = session._statements  # type: ignore[attr-defined]
    statement = statements[name]
    prefix = "EXPLAIN (FORMAT JSON) " if session.dialect is Dialect.POSTGRES else "EXPLAIN QUERY PLAN "
    if not statement.sql:
        return Plan((), "")
    session._statements = {**statements, name: replace(statement, sql=prefix + statement.sql)}  # type: ignore[attr-defined]
    try:
        found = await session.fetch(name, ask[0], **ask[1])
    finally:
        session._statements = statements  # type: ignore[attr-defined]
    return _read_postgres(found[0][0]) if session.dialect is Dialect.POSTGRES else _read_sqlite(found)


async def explain_for_all(session: Session, name: str) -> Plan:
    """The plan that PostgreSQL keeps for a prepared statement, whatever the parameters."""
    statement = session._statements[name]  # type: ignore[attr-defined]
    await session.query("SET LOCAL plan_cache_mode = force_generic_plan", [])
    await session.query(f"PREPARE asked AS {statement.sql}", [])
    values = ", ".join("NULL" for _ in statement.parameters)
    found = await session.query(f"EXPLAIN (FORMAT JSON) EXECUTE asked{f'({values})' if values else ''}", [])
    await session.query("DEALLOCATE asked", [])
    return _read_postgres(found[0][0])


def _read_postgres(text: str) -> Plan:
    (plan,) = json.loads(text)
    steps = []
    for node in _nodes(plan["Plan"]):
        index = node.get("Index Name")
        if index is not None:
            table = _table_of(index)
            if table is not None:
                steps.append(Step(table, index, "Index Cond" in node))
        elif node["Node Type"] == "Seq Scan" and node["Relation Name"] in BIG:
            steps.append(Step(node["Relation Name"], None, False))
    return Plan(tuple(steps), text)


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _nodes(below)


def _read_sqlite(rows: Sequence[Any]) -> Plan:
    details = [row["detail"] for row in rows]
    steps = []
    for detail in details:
        found = _SQLITE_STEP.match(detail)
        if found is None or " VIRTUAL TABLE " in detail or _SQLITE_SMALL.fullmatch(found[2]):
            continue
        index = None if found[3] is None else _SQLITE_KEYS.get(found[3], found[3])
        steps.append(Step(_table_of(index) or found[2], index, found[4] is not None))
    return Plan(tuple(steps), "\n".join(details))


def _table_of(index: str | None) -> str | None:
    """The table that an index belongs to: the longest name that it begins with."""
    return max((table for table in BIG if (index or "").startswith(table)), key=len, default=None)
