"""Reading the values of a retry policy: each is right, or becomes a problem that says what is allowed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from perdure.domain.errors import Problem
from perdure.domain.policy_fields import Given

Choice = TypeVar("Choice", bound=StrEnum)

MOST_CONDITIONS = 100
LONGEST_CONDITION = 255
#: Larger numbers are not written out: the longest would not even fit into text.
_LARGEST_SHOWN = 10**15
_HTTP_CLASS = re.compile(r"[0-9]xx", re.ASCII | re.IGNORECASE)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def show_number(number: float) -> str:
    """A number for people: without a needless fraction, and never overly long."""
    if abs(number) > _LARGEST_SHOWN:
        return "far larger" if number > 0 else "far smaller"
    if math.isnan(number):
        return "not a number"
    return str(int(number)) if number == int(number) else repr(number)


def describe_range(lowest: float, highest: float) -> str:
    if math.isinf(highest):
        return f"at least {show_number(lowest)}"
    return f"between {show_number(lowest)} and {show_number(highest)}"


def read_number(
    given: Given, lowest: float, highest: float, problems: list[Problem], *, limit_name: str = ""
) -> float | None:
    """The number, if it is one from `lowest` to `highest`."""
    value = given.value
    if not is_number(value):
        problems.append(given.problem("must be a number"))
        return None
    # What is not finite is beyond all bounds, and comparing does not convert huge integers.
    if lowest <= value <= highest and value < math.inf:
        try:
            return float(value)
        except OverflowError:
            highest = _LARGEST_SHOWN
    allowed = describe_range(lowest, highest)
    named = f" ({limit_name})" if limit_name and value > highest else ""
    problems.append(given.problem(f"must be {allowed}{named}, is {show_number(value)}"))
    return None


@dataclass(slots=True)
class FieldReader:
    """Reads one field after the other. What breaks a rule is noted and read as its default."""

    fields: Mapping[str, Given]
    problems: list[Problem]
    broken: set[str] = field(default_factory=set)

    def has(self, name: str) -> bool:
        return name in self.fields

    def number(
        self, name: str, default: float, lowest: float, highest: float = math.inf, *, limit_name: str = ""
    ) -> float:
        found = self.optional_number(name, lowest, highest, limit_name=limit_name)
        return default if found is None else found

    def optional_number(
        self, name: str, lowest: float, highest: float = math.inf, *, limit_name: str = ""
    ) -> float | None:
        given = self.fields.get(name)
        if given is None:
            return None
        found = read_number(given, lowest, highest, self.problems, limit_name=limit_name)
        if found is None:
            self.broken.add(name)
        return found

    def whole_number(self, name: str, default: int, lowest: int, highest: int, *, limit_name: str = "") -> int:
        given = self.fields.get(name)
        if given is not None and isinstance(given.value, float) and not given.value.is_integer():
            self.refuse(name, "must be a whole number")
            return default
        return int(self.number(name, default, lowest, highest, limit_name=limit_name))

    def flag(self, name: str, default: bool) -> bool:
        given = self.fields.get(name)
        if given is None:
            return default
        if not isinstance(given.value, bool):
            self.refuse(name, "must be true or false")
            return default
        return given.value

    def choice(self, name: str, choices: type[Choice], default: Choice, aliases: Mapping[str, Choice]) -> Choice:
        given = self.fields.get(name)
        if given is None:
            return default
        if isinstance(given.value, str):
            if given.value in aliases:
                return aliases[given.value]
            if given.value in set(choices):
                return choices(given.value)
        allowed = [repr(choice.value) for choice in choices]
        self.refuse(name, f"must be {', '.join(allowed[:-1])} or {allowed[-1]}")
        return default

    def moment(self, name: str) -> datetime | None:
        given = self.fields.get(name)
        if given is None:
            return None
        # TOML has a type of its own for moments.
        moment = given.value if isinstance(given.value, datetime) else _parse_moment(given.value)
        if moment is None:
            self.refuse(name, "must be an RFC 3339 time such as 2030-01-31T12:00:00Z")
        elif moment.tzinfo is None:
            self.refuse(name, "must name its time zone, for example by a final Z")
        else:
            try:
                return moment.astimezone(UTC)
            except (OverflowError, ValueError):
                self.refuse(name, "is out of range")
        return None

    def conditions(self, name: str, *, may_be_empty: bool) -> tuple[str, ...] | None:
        """A list of triggers, statuses, HTTP classes and error codes, each once."""
        given = self.fields.get(name)
        if given is None:
            return None
        before = len(self.problems)
        if not isinstance(given.value, Sequence) or isinstance(given.value, str | bytes):
            self.refuse(name, "must be a list of triggers, HTTP statuses, HTTP classes and error codes")
            return None
        if not given.value and not may_be_empty:
            self.refuse(name, "must not be empty; leave it out to retry every failure that is not final")
        if len(given.value) > MOST_CONDITIONS:
            self.refuse(name, f"must have at most {MOST_CONDITIONS} entries, has {len(given.value)}")
            return None
        read = [_read_condition(given.entry(index, value), self.problems) for index, value in enumerate(given.value)]
        if len(self.problems) > before:
            self.broken.add(name)
            return None
        return tuple(dict.fromkeys(read))

    def refuse(self, name: str, message: str) -> None:
        self.broken.add(name)
        self.problems.append(self.fields[name].problem(message))


def _read_condition(given: Given, problems: list[Problem]) -> str:
    value = given.value
    if not isinstance(value, str):
        wanted = f'; write "{value}"' if is_number(value) and 100 <= value <= 599 else ""
        problems.append(given.problem(f"must be text{wanted}"))
        return ""
    if not value.strip():
        problems.append(given.problem("must not be empty"))
    elif len(value) > LONGEST_CONDITION or not value.isprintable():
        problems.append(given.problem(f"must be printable text of at most {LONGEST_CONDITION} characters"))
    elif _HTTP_CLASS.fullmatch(value):
        if value[0] not in "12345":
            problems.append(given.problem(f"{value!r} is no HTTP class; there are 1xx to 5xx"))
        return value.lower()
    return value


def _parse_moment(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value.upper())
    except ValueError:
        return None
