"""The one place that reads the time. UTC everywhere."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The present moment, in UTC."""
        ...


class SystemClock:
    """This machine's time, for a database that is a file on it."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class SteeredClock:
    """Time that follows another clock: ours only measures how long ago the other one was read.

    An instance on PostgreSQL goes by the database's time, so that instances agree and a wrong wall clock harms nobody.
    """

    def __init__(self) -> None:
        # What the other clock showed, and when: one value, because threads read it while it changes.
        self._origin = (datetime.now(UTC), time.monotonic())

    def now(self) -> datetime:
        moment, read_at = self._origin
        return moment + timedelta(seconds=time.monotonic() - read_at)

    def follow(self, moment: datetime, asked_at: float, answered_at: float) -> timedelta:
        """Take over `moment`, read between the two monotonic times; returns how far we were off."""
        read_at = (asked_at + answered_at) / 2
        shown, shown_at = self._origin
        self._origin = (moment, read_at)
        return moment - (shown + timedelta(seconds=read_at - shown_at))


def monotonic() -> float:
    """Seconds for measuring durations; means nothing by itself."""
    return time.monotonic()
