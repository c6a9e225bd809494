"""What submitters and receivers wrote is shown, never obeyed: neither rich's markup nor what terminals act on."""

from __future__ import annotations

from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from perdure.cli.show import clean, untrusted
from tests.cli.place import Place, hook

HOSTILE = "[bold red]x[/] [link=http://evil]y[/link] \x1b[2J\x1b]0;title\x07 \u009b31m :bomb: \u202eevil\r\nbye"
SHOWN = r"[bold red]x[/] [link=http://evil]y[/link] \x1b[2J\x1b]0;title\x07 \x9b31m :bomb: \u202eevil\r\nbye"


def _submit_hostile(place: Place) -> dict[str, str]:
    retry = {"strategy": "fixed_delay", "delay_secs": 60, "max_retries": 1}
    ids = place.submit(hook("a", name=HOSTILE, kind="[red]k\x1b", metadata={"m": HOSTILE}, retry=retry), name=HOSTILE)
    place.end(ids["a"], "Failure", failure_reason=HOSTILE, code="[red]")
    return ids


def test_no_command_obeys_what_others_wrote(place: Place) -> None:
    ids = _submit_hostile(place)

    for command in (
        ("task", "list"),
        ("task", "show", ids["a"]),
        ("task", "pause", ids["a"]),
        ("task", "resume", ids["a"]),
        ("batch", "list"),
        ("batch", "show", ids["batch"]),
        ("retries",),
    ):
        printed = place.prints(*command)
        assert SHOWN in printed, command
        assert "\x1b" not in printed and "\u009b" not in printed and "\u202e" not in printed, command


def test_lines_of_a_reason_cannot_pass_for_ours(place: Place) -> None:
    ids = place.submit(hook("a"))
    place.end(ids["a"], "Failure", failure_reason="it broke\nWhat to do\n  run this")

    lines = place.prints("task", "show", ids["a"]).splitlines()
    assert lines.count("What to do") == 1
    reason, attempt = (index for index, line in enumerate(lines) if line.strip() == "it broke")
    assert lines[reason + 1 : reason + 3] == ["    What to do", "      run this"]
    assert lines[attempt + 1 : attempt + 3] == ["     What to do", "       run this (explicit, retryable)"]


def test_documents_for_programs_are_ascii(place: Place) -> None:
    ids = _submit_hostile(place)

    printed = place.prints("task", "show", ids["a"], "--json")
    assert printed.isascii() and printed.strip().isprintable()
    assert place.answers("task", "show", ids["a"])["name"] == HOSTILE


@pytest.mark.parametrize("text", ["Grüße", "日本語", "ok 🎉", "a [b] c"])
def test_what_can_be_read_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


@given(st.text())
def test_nothing_that_a_terminal_acts_on_is_left(text: str) -> None:
    cleaned = clean(text)

    assert not {category(character) for character in cleaned} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert isinstance(untrusted(text), Text)
    assert untrusted(text).spans == []
    cleaned.encode()
