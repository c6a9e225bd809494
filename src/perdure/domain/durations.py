"""Lengths of time as people write them: `90`, `"90s"`, `"1h30m"`, `"7d"`."""

from __future__ import annotations

import math
import re

_SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
#: A unit and the one below it, each with its seconds, and up to where they are the ones to show.
_SHOWN_UNITS = (
    (60, "m", 1, "s", 3600),
    (3600, "h", 60, "m", 86_400),
    (86_400, "d", 3600, "h", math.inf),
)
_PART = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*(ms|s|m|h|d|w)", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern}\s*)+", re.ASCII)
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,9})?", re.ASCII)


def parse_duration(value: str | int | float) -> float:
    """Seconds in `value`: a number of seconds, or text such as "90s", "1h30m", "7d", "250ms".

    Raises ValueError, with a message fit for users, for anything else (negative, not finite, unknown unit).
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("must be a number of seconds or a duration such as '90s', '1h30m' or '7d'")
    if isinstance(value, str):
        return _parse_text(value)
    try:
        seconds = float(value)
    except OverflowError:
        raise ValueError("is too long") from None
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError("must be zero or more seconds")
    return seconds


def _parse_text(text: str) -> float:
    stripped = text.strip().lower()
    if _NUMBER.fullmatch(stripped):
        return float(stripped)
    if not _WHOLE.fullmatch(stripped):
        raise ValueError(f"{text[:40]!r} is no duration; write for example '90s', '1h30m' or '7d'")
    parts = _PART.findall(stripped)
    units = [unit for _, unit in parts]
    if len(set(units)) != len(units):
        raise ValueError(f"{text[:40]!r} names a unit twice")
    return sum(float(number) * _SECONDS_PER_UNIT[unit] for number, unit in parts)


def show_duration(seconds: float) -> str:
    """A length of time for people to read, in at most two units: "250ms", "4.5s", "1m30s", "2h5m", "7d"."""
    if seconds < 0.9995:
        return f"{round(seconds * 1000)}ms" if seconds else "0s"
    if seconds < 59.95:
        return f"{round(seconds, 1):g}s"
    for size, unit, part, smaller, most in _SHOWN_UNITS:
        count = round(seconds / part)
        # What rounds up to the next unit is shown in that one.
        if count * part < most:
            whole, rest = divmod(count, size // part)
            return f"{whole}{unit}{rest}{smaller}" if rest else f"{whole}{unit}"
    raise AssertionError("every length of time is below the last unit's limit")
