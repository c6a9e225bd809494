"""Reading the delays of a custom schedule, in all the forms that people give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from perdure.domain.durations import parse_duration
from perdure.domain.errors import Problem
from perdure.domain.policy_fields import Given, gather_members, index_spellings
from perdure.domain.policy_values import read_number

MOST_ENTRIES = 1000

_SECONDS_PER_MEMBER = {
    "delay_days": 86_400.0,
    "delay_hours": 3600.0,
    "delay_minutes": 60.0,
    "delay_secs": 1.0,
}
_ENVELOPE = index_spellings({"attempts": ()})
_ENTRY = index_spellings(
    {
        "attempt": (),
        "delay_days": ("delayDays",),
        "delay_hours": ("delayHours",),
        "delay_minutes": ("delayMinutes",),
        "delay_secs": ("delaySecs", "delay_seconds", "delaySeconds"),
    }
)
_PROBLEMS_REPORTED = 10


class Longest(NamedTuple):
    """The longest delay that is allowed, and how to say so."""

    seconds: float
    text: str


def read_delays(given: Given, longest: Longest, problems: list[Problem]) -> tuple[float, ...] | None:
    """The delays in seconds, in the order of the retries; None if a rule is broken."""
    if isinstance(given.value, Mapping):
        found = gather_members(given, _ENVELOPE, problems).get("attempts")
        if found is None:
            problems.append(given.problem("must have a list 'attempts'"))
            return None
        given = found
    if not isinstance(given.value, Sequence) or isinstance(given.value, str | bytes):
        problems.append(given.problem("must be a list of delays such as 60, '7d' or {\"delay_days\": 7}"))
        return None
    if not 1 <= len(given.value) <= MOST_ENTRIES:
        problems.append(given.problem(f"must have 1 to {MOST_ENTRIES} entries, has {len(given.value)}"))
        return None
    return _read_entries(given, longest, problems)


def _read_entries(given: Given, longest: Longest, problems: list[Problem]) -> tuple[float, ...] | None:
    delays: list[float] = []
    numbers: list[Any] = []
    broken: list[Problem] = []
    for index, value in enumerate(given.value):
        entry = given.entry(index, value)
        number, seconds = _read_entry(entry, broken)
        if seconds is not None and seconds > longest.seconds:
            broken.append(entry.problem(f"must be at most {longest.text}"))
        delays.append(0.0 if seconds is None else seconds)
        numbers.append(number)
        if len(broken) >= _PROBLEMS_REPORTED:
            break
    problems.extend(broken)
    if broken:
        return None
    if all(number is None for number in numbers):
        return tuple(delays)
    complaint = _check_numbers(numbers)
    if complaint is not None:
        problems.append(given.problem(complaint))
        return None
    return tuple(delay for _, delay in sorted(zip(numbers, delays, strict=True)))


def _read_entry(entry: Given, problems: list[Problem]) -> tuple[Any, float | None]:
    """The attempt that the entry is for, if it says so, and its seconds."""
    if isinstance(entry.value, Mapping):
        members = gather_members(entry, _ENTRY, problems)
        number = members.pop("attempt", None)
        return None if number is None else number.value, _add_up(entry, members, problems)
    try:
        return None, parse_duration(entry.value)
    except ValueError as error:
        problems.append(entry.problem(str(error)))
        return None, None


def _add_up(entry: Given, members: Mapping[str, Given], problems: list[Problem]) -> float | None:
    if not members:
        problems.append(entry.problem("must have delay_days, delay_hours, delay_minutes or delay_secs"))
        return None
    total = 0.0
    for name, member in members.items():
        amount = read_number(member, 0, inf, problems)
        if amount is None:
            return None
        total += amount * _SECONDS_PER_MEMBER[name]
    return total


def _check_numbers(numbers: Sequence[Any]) -> str | None:
    rule = f"attempt numbers must be 1 to {len(numbers)} without gaps"
    if any(isinstance(number, bool) or not isinstance(number, int) for number in numbers):
        return f"{rule}: every entry needs one, or none has any"
    missing = sorted(set(range(1, len(numbers) + 1)) - set(numbers))
    return f"{rule}: {missing[0]} is missing" if missing else None
