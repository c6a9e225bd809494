"""Retry policies written in Python: the same fields as in the HTTP API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict, Unpack

from perdure.domain.durations import parse_duration

Duration = float | str
"""Seconds, or text such as "90s", "1h30m" or "7d"."""
Condition = str | int | type[BaseException]
"""A trigger, an HTTP status or class, an error code, or an exception class."""


class More(TypedDict, total=False):
    """Each as in the HTTP API, except that durations may be text and conditions classes of exceptions."""

    jitter: str
    jitter_ratio: float
    expires_after: Duration
    expires_at: datetime | str
    retry_on: Iterable[Condition]
    ignore: Iterable[Condition]
    on_exhausted: str


@dataclass(frozen=True, slots=True)
class Retry:
    """When and how often a failed task is tried again; made by one of the class methods."""

    members: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def immediate(cls, max_retries: int, **more: Unpack[More]) -> Retry:
        """Again at once."""
        return cls._make({"strategy": "immediate", "max_retries": max_retries}, more)

    @classmethod
    def fixed(cls, delay: Duration, *, max_retries: int, **more: Unpack[More]) -> Retry:
        """Again after the same wait each time."""
        wait = {"strategy": "fixed_delay", "delay_secs": parse_duration(delay), "max_retries": max_retries}
        return cls._make(wait, more)

    @classmethod
    def exponential(
        cls,
        initial: Duration | None = None,
        *,
        max_retries: int,
        multiplier: float | None = None,
        cap: Duration | None = None,
        **more: Unpack[More],
    ) -> Retry:
        """Again after waits that grow: `initial`, times `multiplier` each time, at most `cap`."""
        growth = {
            "strategy": "exponential_backoff",
            "max_retries": max_retries,
            "initial_delay_secs": None if initial is None else parse_duration(initial),
            "backoff_multiplier": multiplier,
            "max_delay_secs": None if cap is None else parse_duration(cap),
        }
        return cls._make(growth, more)

    @classmethod
    def custom(cls, schedule: Sequence[Duration], *, max_retries: int | None = None, **more: Unpack[More]) -> Retry:
        """Again after these waits, one after the other; the last one repeats. As many retries as waits, by default."""
        waits = [parse_duration(wait) for wait in schedule]
        count = len(waits) if max_retries is None else max_retries
        return cls._make({"strategy": "custom", "schedule": waits, "max_retries": count}, more)

    @classmethod
    def named(cls, name: str, **more: Unpack[More]) -> Retry:
        """The policy of this name in the configuration; what is given besides overrides it."""
        return cls._make({"name": name}, more)

    @classmethod
    def never(cls) -> Retry:
        """No retry, whatever the configuration says for the kind."""
        return cls({"enabled": False, "max_retries": 1})

    @classmethod
    def _make(
        cls,
        members: dict[str, Any],
        more: More,
    ) -> Retry:
        unknown = sorted(set(more) - _MORE.keys())
        if unknown:
            raise TypeError(f"Retry knows no {', '.join(unknown)}; there are {', '.join(sorted(_MORE))}")
        for name, value in more.items():
            key, convert = _MORE[name]
            members[key] = convert(value)
        return cls({key: value for key, value in members.items() if value is not None})


def _conditions(given: Iterable[Condition]) -> list[str]:
    return [condition.__name__ if isinstance(condition, type) else str(condition) for condition in given]


def _moment(value: datetime | str) -> str:
    return value if isinstance(value, str) else value.isoformat()


_MORE: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "jitter": ("jitter", str),
    "jitter_ratio": ("jitter_ratio", float),
    "expires_after": ("expires_after_secs", parse_duration),
    "expires_at": ("expires_at", _moment),
    "retry_on": ("retry_on", _conditions),
    "ignore": ("ignore", _conditions),
    "on_exhausted": ("on_exhausted", str),
}
