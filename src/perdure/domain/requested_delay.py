"""How long the other side asks us to wait, read from its answer without ever failing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

#: No limit for waits can be set beyond it.
LONGEST_REQUESTED_SECS = 365 * 86_400.0
#: A reset above this is a moment in seconds since 1970, below it a number of seconds from now.
_EPOCH_FROM = 1e9
_RESET_HEADERS = ("ratelimit-reset", "x-ratelimit-reset")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
#: The three forms that HTTP knows: of today, of RFC 850 and of C.
_HTTP_DATE = re.compile(
    r"[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
    r"|[A-Z][a-z]{5,8}, [0-9]{2}-[A-Z][a-z]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2} [0-9]{4}",
    re.ASCII,
)


def requested_delay(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait as `Retry-After` says, else `RateLimit-Reset` or `X-RateLimit-Reset`.

    None if no header says so in a way that can be used; huge waits are cut.
    """
    values = {name.lower(): value for name, value in headers.items()}
    delay = read_delay(values.get("retry-after"), now)
    for name in _RESET_HEADERS:
        if delay is None:
            delay = _read_reset(values.get(name), now)
    return delay


def read_delay(value: Any, now: datetime) -> float | None:
    """Seconds in `value`, a number, its text or an HTTP date; None if it is none of these, or negative."""
    if isinstance(value, str):
        number = _read_number(value)
        return _seconds_until(value, now) if number is None else _bounded(number)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _bounded(value)
    return None


def _read_reset(value: str | None, now: datetime) -> float | None:
    number = None if value is None else _read_number(value)
    if number is None:
        return None
    return _bounded(number - now.timestamp() if number > _EPOCH_FROM else number)


def _read_number(text: str) -> float | None:
    stripped = text.strip()
    return float(stripped) if _NUMBER.fullmatch(stripped) else None


def _seconds_until(text: str, now: datetime) -> float | None:
    # The parser of dates is written for mail: it takes much that is none, and stumbles over the rest.
    if not _HTTP_DATE.fullmatch(text.strip()):
        return None
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return _bounded((moment - now).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _bounded(seconds: float) -> float | None:
    # Not a number is not at least zero.
    return float(min(seconds, LONGEST_REQUESTED_SECS)) if seconds >= 0 else None
