"""Named SQL statements, read from `sql/*.sql`, made ready for one of the two databases.

A file holds statements under `-- name: <name>`, or `-- name: <name> @postgres` where the databases differ. Parameters
are written `:name`. A few words stand for what the dialects spell apart:

    {rows(id uuid, attempt int)}   a table `input` of the rows handed in, with these columns
    {ids}                          the same with the one column `id`
    {lock}, {lock skip}            FOR UPDATE, FOR UPDATE SKIP LOCKED; nothing on SQLite, which has one writer
    {after(moment, seconds)}       a moment that many seconds later
    {guard(claimed)}               the task is in a state that this event leaves, by the one table of transitions;
                                   also {guard(live)} and {guard(running)}, and {guard(claimed, child)} for another name
                                   than `task`.
                                   Never a way to find rows: those are found by their id. Other conditions beside it
                                   stand in coalesce(…, FALSE), lest the planner, whose statistics know of no such
                                   row yet, walk the whole table for the few that it expects
    {live}, {active}               the states of tasks that are not over, that somebody works on
    {task}, {short}                every column of a task, and those that a listing shows
    {claimable(alias)}             what makes a task free to be claimed: the condition of its index
    {by(index)}                    the index to walk, where SQLite would choose another; PostgreSQL chooses right
    {ended}                        what every ending sets, whatever the outcome
    {with whom}                    a table `whom` of the destinations with webhooks to be sent, now or later, each found
                                   by one look into the index; the last row is NULL
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources

from perdure.domain.states import ACTIVE, LIVE, Event, Status, sources
from perdure.store.records import MOVED_COLUMNS, SHORT_TASK_COLUMNS, TASK_COLUMNS

_SECTION = re.compile(r"^-- name: (\w+)(?: @(\w+))?\s*$", re.MULTILINE)
_MACRO = re.compile(r"\{(\w+)(?: (\w+))?(?:\(([^{}]*)\))?\}")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")


class Dialect(StrEnum):
    POSTGRES = "postgres"
    SQLITE = "sqlite"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement for one database. `columns` describes the rows that it takes, if it takes any."""

    name: str
    sql: str
    parameters: tuple[str, ...]
    columns: tuple[Column, ...]


@cache
def load_statements(dialect: Dialect) -> Mapping[str, Statement]:
    """Every named statement, in this dialect."""
    statements: dict[str, Statement] = {}
    folder = resources.files("perdure.store").joinpath("sql")
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            for name, only, text in _split(file.read_text("utf-8")):
                if only in (None, dialect.value):
                    if name in statements:
                        raise ValueError(f"the statement {name} stands twice for {dialect} ({file.name})")
                    statements[name] = _prepare(name, text, dialect)
    return statements


def _split(text: str) -> list[tuple[str, str | None, str]]:
    heads = list(_SECTION.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return [
        (head[1], head[2], text[head.end() : end].strip().rstrip(";")) for head, end in zip(heads, ends, strict=True)
    ]


def _prepare(name: str, text: str, dialect: Dialect) -> Statement:
    columns: list[Column] = []

    def expand(match: re.Match[str]) -> str:
        word, option, argument = match[1], match[2], match[3]
        if word in ("rows", "ids"):
            columns.extend(_columns(argument or "id uuid"))
            return _ROWS[dialect](columns)
        if word in _FIXED:
            return _FIXED[word]
        if word == "guard":
            return _guard(dialect, *(part.strip() for part in argument.split(",")))
        if word == "by":
            return f"INDEXED BY {argument}" if dialect is Dialect.SQLITE else ""
        if word == "claimable":
            return f"{argument}.status = 'pending' AND NOT {argument}.paused AND NOT {argument}.delayed"
        if word == "with":
            return _WHOM.format(by=f"INDEXED BY {_DUE}" if dialect is Dialect.SQLITE else "")
        if word == "lock":
            return "" if dialect is Dialect.SQLITE else "FOR UPDATE" + (" SKIP LOCKED" if option else "")
        if word == "after":
            moment, seconds = (part.strip() for part in argument.split(","))
            return _AFTER[dialect](moment, seconds)
        raise ValueError(f"unknown word {match[0]} in the statement {name}")

    sql = _MACRO.sub(expand, text)
    if dialect is Dialect.SQLITE:
        return Statement(name, sql, tuple(dict.fromkeys(_PARAMETER.findall(sql))), tuple(columns))
    order = list(dict.fromkeys(_PARAMETER.findall(sql)))
    numbered = _PARAMETER.sub(lambda match: f"${order.index(match[1]) + 1}", sql)
    return Statement(name, numbered, tuple(order), tuple(columns))


def _columns(argument: str) -> list[Column]:
    return [Column(*part.split()) for part in argument.split(",")]


def _rows_from_arrays(columns: list[Column]) -> str:
    arrays = ", ".join(f"CAST(:rows_{column.name} AS {column.type}[])" for column in columns)
    return f"unnest({arrays}) AS input({', '.join(column.name for column in columns)})"


def _rows_from_json(columns: list[Column]) -> str:
    fields = ", ".join(f"value ->> {index} AS {column.name}" for index, column in enumerate(columns))
    return f"(SELECT {fields} FROM json_each(:rows)) AS input"


def _guard(dialect: Dialect, event: str, table: str = "task") -> str:
    states = _NAMED[event] if event in _NAMED else sources(Event[event.upper()])
    # A unary plus and a CASE keep the databases from walking an index of states instead of looking up ids: what they
    # guess about how many tasks are in a state is often stale, and wrong guesses make the work quadratic.
    if dialect is Dialect.SQLITE:
        return f"+{table}.status IN {_listed(states)}"
    return f"CASE WHEN {table}.status IN {_listed(states)} THEN TRUE ELSE FALSE END"


_NAMED = {"live": LIVE, "running": frozenset({Status.RUNNING})}


def _listed(statuses: frozenset[Status]) -> str:
    return "(" + ", ".join(f"'{status.value}'" for status in Status if status in statuses) + ")"


_DUE = "webhook_execution_due"
_WHOM = """WITH RECURSIVE whom(destination) AS (
    SELECT (SELECT w.destination FROM webhook_execution w {by}
        WHERE w.next_send_at IS NOT NULL ORDER BY w.destination LIMIT 1)
    UNION ALL
    SELECT (SELECT w.destination FROM webhook_execution w {by}
        WHERE w.next_send_at IS NOT NULL AND w.destination > whom.destination ORDER BY w.destination LIMIT 1)
    FROM whom WHERE whom.destination IS NOT NULL
)"""
_FIXED = {
    "live": _listed(LIVE),
    "active": _listed(ACTIVE),
    "task": ", ".join(f"task.{column}" for column in (*TASK_COLUMNS, "from_status")),
    "short": ", ".join(f"task.{column}" for column in SHORT_TASK_COLUMNS),
    "moved": ", ".join(f"task.{column}" for column in MOVED_COLUMNS),
    "ended": (
        "from_status = status, ended_at = :now, last_updated = :now, lease_until = NULL, times_out_at = NULL, "
        "next_retry_at = NULL, paused = FALSE, parked = FALSE, version = version + 1"
    ),
}
_ROWS: Mapping[Dialect, Callable[[list[Column]], str]] = {
    Dialect.POSTGRES: _rows_from_arrays,
    Dialect.SQLITE: _rows_from_json,
}
_AFTER: Mapping[Dialect, Callable[[str, str], str]] = {
    Dialect.POSTGRES: lambda moment, seconds: f"(CAST({moment} AS timestamptz) + {seconds} * interval '1 second')",
    Dialect.SQLITE: lambda moment, seconds: f"({moment} + {seconds} * 1000000)",
}
