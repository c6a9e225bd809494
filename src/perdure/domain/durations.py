"""Lengths of time as people write them: `90`, `"90s"`, `"1h30m"`, `"7d"`."""

from __future__ import annotations

import math
import re

_SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
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
