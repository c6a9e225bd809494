"""The SQL: every statement that moves a task is guarded by the one table of transitions."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from perdure.domain.states import TRANSITIONS, Event, Status, sources
from perdure.store import statements
from perdure.store.statements import Dialect, load_statements

_MOVE = re.compile(r"UPDATE task SET (?:.*?,)?\s*status = (?:'(?P<target>\w+)'|CASE)", re.DOTALL)
_GUARD = re.compile(r"\{guard\((\w+)\)\}")


def _texts() -> dict[str, str]:
    """Every statement as it is written, by name and dialect."""
    folder = resources.files("perdure.store").joinpath("sql")
    found = {}
    for file in folder.iterdir():
        for name, only, text in statements._split(file.read_text("utf-8")):
            found[name if only is None else f"{name} @{only}"] = text
    return found


MOVES = {name: text for name, text in _texts().items() if _MOVE.search(text)}


def test_the_statements_that_move_tasks_are_found() -> None:
    assert {"claim", "start", "succeed", "fail", "schedule_retry", "release_retries", "cancel"} <= set(MOVES)
    assert {"doom", "skip", "release_children", "release_claims", "reap_claims"} <= set(MOVES)


@pytest.mark.parametrize("name", sorted(MOVES))
def test_a_move_is_guarded_by_an_event_that_leads_there(name: str) -> None:
    move = _MOVE.search(MOVES[name])
    guards = _GUARD.findall(MOVES[name])

    assert move is not None
    assert len(guards) == 1, f"{name} must be guarded by one event"
    event = Event[guards[0].upper()]
    if move["target"] is not None:
        assert Status(move["target"]) in {one.target for one in TRANSITIONS if one.event is event}
    assert "from_status = status" in MOVES[name] or "{ended}" in MOVES[name], f"{name} must remember where it came from"


@pytest.mark.parametrize("dialect", list(Dialect), ids=str)
def test_a_guard_lists_the_states_that_its_event_leaves(dialect: Dialect) -> None:
    sql = load_statements(dialect)["succeed"].sql

    listed = set(re.findall(r"'(\w+)'", sql[sql.index("WHERE") :]))
    assert listed == {status.value for status in sources(Event.SUCCEEDED)}


def test_both_databases_know_the_same_statements() -> None:
    postgres, sqlite = load_statements(Dialect.POSTGRES), load_statements(Dialect.SQLITE)

    assert set(postgres) == set(sqlite)
    for name, statement in postgres.items():
        wanted = [parameter for parameter in statement.parameters if not parameter.startswith("rows_")]
        given = [parameter for parameter in sqlite[name].parameters if parameter != "rows"]
        if statement.sql and sqlite[name].sql:
            assert set(wanted) == set(given), name
            assert statement.columns == sqlite[name].columns, name


def test_a_statement_that_stands_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "_split", lambda _: [("twin", None, "SELECT 1"), ("twin", None, "SELECT 2")])
    load_statements.cache_clear()
    try:
        with pytest.raises(ValueError, match="the statement twin stands twice"):
            load_statements(Dialect.SQLITE)
    finally:
        load_statements.cache_clear()


def test_an_unknown_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "_split", lambda _: [("odd", None, "SELECT {nonsense}")])
    load_statements.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"unknown word \{nonsense\} in the statement odd"):
            load_statements(Dialect.SQLITE)
    finally:
        load_statements.cache_clear()
