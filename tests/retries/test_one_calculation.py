"""Nothing but `domain/retry.py`, with `domain/delays.py`, computes a retry time: proved by reading all of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

import perdure
from perdure.store.migrations import load_migrations
from perdure.store.statements import Dialect, load_statements

SOURCES = Path(perdure.__file__).parent
#: What the calculation consists of.
CALCULATION = {"strategy_delay", "own_spread", "server_spread", "deadline_of", "moment_after"}
#: The decision, the calculation, and the preview, which shows what the decision would be and stores nothing.
ALLOWED = {"domain/retry.py", "domain/delays.py", "domain/preview.py"}
#: Calls that make a moment out of another one.
ARITHMETIC_CALLS = {"timedelta", "seconds_after", "moment_after"}
#: What SQL may write as the moment of a retry: the one that was decided, none, or the moment of a retry by hand.
STORED = {"input.next_retry_at", "null", ":now"}


def parsed() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(SOURCES.rglob("*.py")):
        yield file.relative_to(SOURCES).as_posix(), ast.parse(file.read_text("utf-8"))


def names_in(tree: ast.AST) -> set[str]:
    """Every name that is used or imported."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add(node.name)
    return found


def users_of(*names: str) -> set[str]:
    return {path for path, tree in parsed() if names_in(tree) & set(names)}


def values_given(tree: ast.Module, name: str) -> Iterator[ast.expr]:
    """Every expression that becomes the value of something called `name`: variable, attribute, argument, member."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == name:
            yield node.value
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name:
                    yield value
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(_is_called(target, name) for target in targets):
                yield ast.BinOp(node.target, node.op, node.value) if isinstance(node, ast.AugAssign) else node.value


def _is_called(target: ast.expr, name: str) -> bool:
    if isinstance(target, ast.Subscript):
        return isinstance(target.slice, ast.Constant) and target.slice.value == name
    return (target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", None)) == name


def computes(expression: ast.expr) -> bool:
    """Whether a value is worked out in this very place."""
    return any(
        isinstance(node, ast.BinOp) or (isinstance(node, ast.Call) and names_in(node.func) & ARITHMETIC_CALLS)
        for node in ast.walk(expression)
    )


def test_the_calculation_is_used_by_the_decision_alone() -> None:
    assert users_of(*CALCULATION) == ALLOWED


def test_the_decision_is_made_in_one_place_for_all_paths() -> None:
    imports = {
        path
        for path, tree in parsed()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module == "perdure.domain.retry"
        and any(alias.name == "decide" for alias in node.names)
    }

    assert imports == {"engine/decisions.py"}


def test_a_retry_is_made_by_the_decision_alone() -> None:
    makers = {
        path
        for path, tree in parsed()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Retry"
    }

    assert makers == {"domain/retry.py"}


def test_no_python_works_out_the_moment_of_a_retry_elsewhere() -> None:
    given = [(path, value) for path, tree in parsed() for value in values_given(tree, "next_retry_at")]

    assert len(given) >= 3, "the search itself must find where moments are handed on"
    assert [f"{path}: {ast.unparse(value)}" for path, value in given if computes(value)] == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("next_retry_at = now + delay", True),
        ("task.next_retry_at = moment_after(now, 5)", True),
        ("store(next_retry_at=now + timedelta(seconds=5))", True),
        ("fields = {'next_retry_at': now - wait}", True),
        ("row['next_retry_at'] = clock.now() + timedelta(seconds=1)", True),
        ("next_retry_at += delay", True),
        ("store(next_retry_at=retry.at)", False),
        ("next_retry_at = row['next_retry_at']", False),
        ("other = now + delay", False),
    ],
)
def test_the_search_finds_what_it_looks_for(code: str, found: bool) -> None:
    assert any(computes(value) for value in values_given(ast.parse(code), "next_retry_at")) is found


def all_sql() -> Iterator[tuple[str, str]]:
    """Every statement and every migration, for both databases, without comments and in lower case."""
    for dialect in Dialect:
        for name, statement in load_statements(dialect).items():
            yield f"{name} for {dialect}", statement.sql
        for migration in load_migrations(dialect):
            yield f"migration {migration.name} for {dialect}", migration.sql


def plain(sql: str) -> str:
    return " ".join(re.sub(r"--[^\n]*", " ", sql).lower().split())


def test_no_sql_works_out_the_moment_of_a_retry() -> None:
    arithmetic = re.compile(r"next_retry_at\s*[-+*/]|[-+*/]\s*(?:\w+\.)?next_retry_at\b")
    found = [name for name, sql in all_sql() if arithmetic.search(plain(sql))]

    assert found == []


def test_sql_stores_the_moment_that_was_decided() -> None:
    templates = resources.files("perdure.store").joinpath("sql")
    written = [
        (file.name, value)
        for file in templates.iterdir()
        if file.name.endswith(".sql")
        for value in re.findall(r"\bset\b(?:(?!\bwhere\b).)*", plain(file.read_text("utf-8")))
        for value in re.findall(r"\bnext_retry_at = ([^,]+?)(?:,| from | where |$)", value)
    ]

    assert len(written) >= 8, "the search itself must find where moments are written"
    assert {value.strip() for _, value in written} == STORED


def test_state_and_moment_are_written_by_the_same_statement() -> None:
    for dialect in Dialect:
        waiting = {
            name: plain(statement.sql)
            for name, statement in load_statements(dialect).items()
            if re.search(r"set\b.*\bstatus = 'retry_pending'.*\bfrom input\b", plain(statement.sql))
        }
        assert set(waiting) == {"schedule_retry", "park"}
        assert all("next_retry_at =" in sql for sql in waiting.values())


def test_no_sql_knows_how_delays_grow() -> None:
    growth = re.compile(r"\b(?:power|pow|exp)\s*\(|random\s*\(")

    assert [name for name, sql in all_sql() if growth.search(plain(sql))] == []
