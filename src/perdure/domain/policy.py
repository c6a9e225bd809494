"""A retry policy in its canonical form, and the limits that the configuration sets for all of them.

Policies come from `parse_policy` (what people write) or `RetryPolicy.from_json` (what was stored).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

SECONDS_PER_DAY = 86_400.0


class Strategy(StrEnum):
    """How the delay before a retry is found."""

    IMMEDIATE = "immediate"
    EXPONENTIAL_BACKOFF = "exponential_backoff"
    FIXED_DELAY = "fixed_delay"
    CUSTOM = "custom"


class Jitter(StrEnum):
    """How a delay is spread, so that tasks that failed together do not come back together."""

    NONE = "none"
    PROPORTIONAL = "proportional"
    FULL = "full"
    EQUAL = "equal"
    DECORRELATED = "decorrelated"


class OnExhausted(StrEnum):
    """What becomes of a task whose budget is spent."""

    FAIL = "fail"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """What a policy takes where it says nothing itself: the section [backoff], by the same names."""

    default_backoff_seconds: tuple[float, ...] = (5.0,)
    """The first delays of a policy that names none, at least one; beyond them they grow by the multiplier."""
    max_backoff_seconds: float = 300.0
    backoff_multiplier: float = 2.0
    jitter_enabled: bool = True
    jitter_max_percentage: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """What no policy may exceed, and the defaults of all.

    The limits are the effective ones: with a [backoff] section the configuration has already lowered
    `max_delay_limit` and `retry_after_limit` to `max_backoff_seconds`, unless they are set apart.
    """

    max_retries_limit: int = 10
    max_delay_limit: float = 3600.0
    retry_after_limit: float = 3600.0
    max_free_waits: int = 100
    max_schedule_days: int = 365
    max_worker_losses: int = 5
    backoff: Backoff = field(default_factory=Backoff)

    @property
    def longest_scheduled_secs(self) -> float:
        """The longest delay that a custom schedule may name."""
        return self.max_schedule_days * SECONDS_PER_DAY

    @property
    def default_max_delay_secs(self) -> float:
        return float(min(self.backoff.max_backoff_seconds, self.max_delay_limit))

    @property
    def default_delays(self) -> tuple[float, ...]:
        """The first delays of a policy that names none, none of them beyond the default maximum."""
        return tuple(min(float(delay), self.default_max_delay_secs) for delay in self.backoff.default_backoff_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When and how often a failed task is tried again; every default is filled in."""

    strategy: Strategy
    max_retries: int
    initial_delay_secs: float
    backoff_multiplier: float
    max_delay_secs: float
    delay_secs: float | None
    schedule: tuple[float, ...] | None
    first_delays: tuple[float, ...] | None
    """The configured first delays, for a policy that names none of its own and where no formula says them."""
    retry_on: tuple[str, ...] | None
    """What is retried; None for everything that is not final."""
    ignore: tuple[str, ...]
    jitter: Jitter
    jitter_ratio: float
    expires_at: datetime | None
    expires_after_secs: float | None
    on_exhausted: OnExhausted
    enabled: bool
    name: str | None
    """The named policy that this one was made from."""

    def to_json(self) -> dict[str, Any]:
        """The policy as answers show it and as it is stored; `parse_policy` takes it back."""
        shown: dict[str, Any] = {
            "strategy": self.strategy.value,
            "max_retries": self.max_retries,
            "initial_delay_secs": _plain(self.initial_delay_secs),
            "backoff_multiplier": self.backoff_multiplier,
            "max_delay_secs": _plain(self.max_delay_secs),
            "delay_secs": None if self.delay_secs is None else _plain(self.delay_secs),
            "schedule": _plain_list(self.schedule),
            "retry_on": None if self.retry_on is None else list(self.retry_on),
            "ignore": list(self.ignore),
            "jitter": self.jitter.value,
            "jitter_ratio": self.jitter_ratio,
            "expires_at": None if self.expires_at is None else _rfc3339(self.expires_at),
            "expires_after_secs": None if self.expires_after_secs is None else _plain(self.expires_after_secs),
            "on_exhausted": self.on_exhausted.value,
            "enabled": self.enabled,
            "name": self.name,
        }
        if self.first_delays is not None:
            shown["first_delays"] = _plain_list(self.first_delays)
        return shown

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> RetryPolicy:
        """A policy as `to_json` wrote it; nothing is checked."""
        expires_at = stored["expires_at"]
        return cls(
            strategy=Strategy(stored["strategy"]),
            max_retries=stored["max_retries"],
            initial_delay_secs=float(stored["initial_delay_secs"]),
            backoff_multiplier=float(stored["backoff_multiplier"]),
            max_delay_secs=float(stored["max_delay_secs"]),
            delay_secs=_optional_float(stored["delay_secs"]),
            schedule=_optional_floats(stored["schedule"]),
            first_delays=_optional_floats(stored.get("first_delays")),
            retry_on=None if stored["retry_on"] is None else tuple(stored["retry_on"]),
            ignore=tuple(stored["ignore"]),
            jitter=Jitter(stored["jitter"]),
            jitter_ratio=float(stored["jitter_ratio"]),
            expires_at=None if expires_at is None else datetime.fromisoformat(expires_at).astimezone(UTC),
            expires_after_secs=_optional_float(stored["expires_after_secs"]),
            on_exhausted=OnExhausted(stored["on_exhausted"]),
            enabled=stored["enabled"],
            name=stored["name"],
        )


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _plain(number: float) -> float:
    """Whole seconds without a fraction, unless that would be a long row of digits."""
    return int(number) if number.is_integer() and number < 1e15 else number


def _plain_list(numbers: tuple[float, ...] | None) -> list[float] | None:
    return None if numbers is None else [_plain(number) for number in numbers]


def _optional_float(number: float | None) -> float | None:
    return None if number is None else float(number)


def _optional_floats(numbers: list[float] | None) -> tuple[float, ...] | None:
    return None if numbers is None else tuple(float(number) for number in numbers)
