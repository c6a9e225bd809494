"""Printing for people and for programs. What others wrote is shown, never obeyed.

Names, reasons and answers come from submitters and receivers. They are put into `Text`, so that nothing in them is
taken for rich's markup, and control characters are spelled out, so that no terminal acts on them.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perdure.domain.durations import show_duration
from perdure.domain.states import LABELS, Status

_UNBOUNDED = 100_000
LONGEST_CELL = 100
_STYLES = {
    Status.RUNNING: "cyan",
    Status.CLAIMED: "cyan",
    Status.RETRY_PENDING: "yellow",
    Status.SUCCESS: "green",
    Status.FAILURE: "bold red",
    Status.CANCELED: "magenta",
    Status.SKIPPED: "dim",
}
_STYLES_BY_LABEL = {LABELS[status]: style for status, style in _STYLES.items()} | {"Paused": "yellow"}
#: Categories of characters that do something instead of showing something, or that cannot be written.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def console() -> Console:
    """Standard output, as wide as it needs to be: nothing is cut, and terminals break long lines themselves."""
    return Console(highlight=False, markup=False, emoji=False, width=_UNBOUNDED)


def clean(text: str, *, lines: bool = False) -> str:
    """The text with everything spelled out that a terminal could act upon; line breaks stay if `lines` is set."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if unicodedata.category(character) not in _UNSEEN or (lines and character == "\n")
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def untrusted(text: str | None, style: str = "") -> Text:
    """What somebody else wrote, for one line; nothing if there is none."""
    return Text("" if text is None else clean(text), style)


def status_text(label: str) -> Text:
    return Text(clean(label), _STYLES_BY_LABEL.get(label, ""))


def moment(at: datetime | None) -> str:
    """A time in UTC, to the second; a dash if there is none."""
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def age(at: datetime | None, now: datetime) -> str:
    """How long ago a moment was; a dash if there is none."""
    return "-" if at is None else show_duration(max(0.0, (now - at).total_seconds()))


def shorten(text: str | None, most: int = LONGEST_CELL) -> Text:
    """The beginning of what somebody else wrote, for a cell of a table."""
    shown = untrusted(text)
    shown.truncate(most, overflow="ellipsis")
    return shown


def distance(at: datetime, now: datetime) -> str:
    """How far away a moment is: "in 5m", "2h ago", "now"."""
    seconds = (at - now).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"in {show_duration(seconds)}" if seconds > 0 else f"{show_duration(-seconds)} ago"


def print_json(value: Any) -> None:
    """One document on one line, in ASCII, so that it is the same in every terminal and file."""
    print(json.dumps(plain(value)))


def plain(value: Any) -> Any:
    """What json understands, times as RFC 3339."""
    return msgspec.to_builtins(value)


def print_table(heads: Sequence[str], rows: Iterable[Sequence[Text | str]], indent: int = 0) -> None:
    """Print rows of cells below their heads; a cell that is no Text is taken as it stands."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        shown.add_column(head, no_wrap=True)
    for row in rows:
        shown.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    where = console()
    with where.capture() as captured:
        where.print(Padding(shown, (0, 0, 0, indent), expand=False))
    # rich fills every column up with blanks, the last one too.
    for line in captured.get().splitlines():
        where.file.write(f"{line.rstrip()}\n")


def note(text: str) -> None:
    """Something beside the answer, so on standard error."""
    print(text, file=sys.stderr)
