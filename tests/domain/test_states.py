"""The states of a task, and the page that draws them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perdure.domain.errors import shown_label
from perdure.domain.states import (
    ACTIVE,
    LABELS,
    LIVE,
    SHOWN,
    TERMINAL,
    TRANSITIONS,
    VALUES,
    Event,
    Status,
    sources,
    target,
)

PAGE = Path(__file__).parents[2] / "docs" / "state_machine.md"
ARROW = re.compile(r"^    (\S+) --> (\S+?)(?:: (.+))?$", re.MULTILINE)
ROW = re.compile(r"^\| ([\w, ]+) \| ([^|]+) \| (\w+) \|$", re.MULTILINE)


def _moves() -> set[tuple[str, str, str]]:
    return {(move.source.label, move.event.value, move.target.label) for move in TRANSITIONS}


def test_the_diagram_shows_every_move_and_no_other() -> None:
    diagram = PAGE.read_text("utf-8").partition("```mermaid\n")[2].partition("```")[0]
    arrows = [(source, text, aim) for source, aim, text in ARROW.findall(diagram)]

    assert len(arrows) == len(set(arrows))
    drawn = {arrow for arrow in arrows if "[*]" not in arrow}
    assert drawn == _moves()
    assert {source for source, _, aim in arrows if aim == "[*]"} == {status.label for status in TERMINAL}
    assert {aim for source, _, aim in arrows if source == "[*]"} == {"Pending", "Waiting"}


def test_the_table_lists_every_move_and_no_other() -> None:
    table = PAGE.read_text("utf-8").partition("## Moves")[2]
    listed = [(source, text, aim) for text_from, text, aim in ROW.findall(table) for source in text_from.split(", ")]
    listed = [row for row in listed if row[0] != "from"]

    assert len(listed) == len(set(listed))
    assert set(listed) == _moves()


def test_the_page_says_which_states_are_live() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (live|terminal) \|", PAGE.read_text("utf-8"), re.MULTILINE)

    assert dict(rows) == {status.label: "live" if status in LIVE else "terminal" for status in Status}


def test_an_event_leads_from_a_state_to_one_other() -> None:
    pairs = [(move.source, move.event) for move in TRANSITIONS]

    assert len(pairs) == len(set(pairs))
    for event in Event:
        assert {move.target for move in TRANSITIONS if move.event is event} == {target(event)}
        assert sources(event) == {move.source for move in TRANSITIONS if move.event is event}


def test_terminal_states_change_by_hand_only() -> None:
    by_hand = {Event.RETRIED_BY_HAND, Event.RESTORED}

    assert {move.event for move in TRANSITIONS if move.source in TERMINAL} == by_hand
    assert {move.source for move in TRANSITIONS if move.source in TERMINAL} == {Status.FAILURE, Status.CANCELED}


def test_every_live_state_can_be_canceled_and_left() -> None:
    assert sources(Event.CANCELED) == LIVE
    for status in LIVE:
        assert {move.target for move in TRANSITIONS if move.source is status} - {Status.CANCELED}


def test_a_result_is_taken_from_those_who_are_worked_on() -> None:
    for event in (Event.SUCCEEDED, Event.FAILED, Event.RETRY_SCHEDULED):
        assert sources(event) == ACTIVE


def test_states_are_live_or_terminal() -> None:
    assert set(Status) == LIVE | TERMINAL
    assert not LIVE & TERMINAL
    assert ACTIVE < LIVE


@pytest.mark.parametrize(
    ("status", "label"),
    [(Status.RETRY_PENDING, "RetryPending"), (Status.WAITING, "Waiting"), (Status.SUCCESS, "Success")],
)
def test_people_read_labels(status: Status, label: str) -> None:
    assert status.label == label
    assert VALUES[label] == status.value


def test_every_shown_value_has_a_label_and_back() -> None:
    assert set(SHOWN) == set(LABELS) == {*(status.value for status in Status), "paused"}
    assert {VALUES[label]: label for label in VALUES} == LABELS
    assert list(SHOWN).index("paused") == len(LIVE)


@pytest.mark.parametrize("status", list(Status))
def test_a_paused_live_task_shows_paused(status: Status) -> None:
    assert shown_label(status, paused=False) == status.label
    assert shown_label(status, paused=True) == ("Paused" if status in LIVE else status.label)
