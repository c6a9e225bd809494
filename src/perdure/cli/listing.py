"""Reading a listing up to a limit, and saying when there is more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from perdure.cli.show import note

Entry = TypeVar("Entry")

SHOWN = 50
"""How many entries are listed unless somebody wants more."""


@dataclass(frozen=True, slots=True)
class Listed(Generic[Entry]):
    entries: list[Entry]
    more: bool


def ask_for(limit: int) -> int | None:
    """How many entries to ask for: one more than wanted tells whether there are others."""
    return limit + 1 if limit else None


async def collect(found: AsyncIterator[Entry], limit: int) -> Listed[Entry]:
    """The first entries, all of them if `limit` is 0."""
    entries = [entry async for entry in found]
    return Listed(entries[:limit], True) if limit and len(entries) > limit else Listed(entries, False)


def tell_about_more(listed: Listed[Entry], what: str) -> None:
    if not listed.entries:
        note(f"No {what} found.")
    elif listed.more:
        note(f"There are more than these {len(listed.entries)} {what}; --limit 0 shows all.")
