"""A clock that stands still until it is moved, so that a test of a week takes no time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from perdure.domain.durations import parse_duration

#: When nothing else is said, time begins here: the same in every run.
BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)


class VirtualClock:
    """Stands in wherever a `Clock` is expected.

        clock = VirtualClock()
        clock.advance("1h30m")

    It stands still until it is moved.
    """

    def __init__(self, start: datetime = BEGINNING) -> None:
        self._now = _in_utc(start)

    def now(self) -> datetime:
        """The moment to which the clock was moved last, in UTC."""
        return self._now

    def advance(self, by: float | str) -> datetime:
        """Move forward by seconds, or by a duration such as "90s", "1h30m" or "7d"; returns the new moment."""
        self._now += timedelta(seconds=parse_duration(by))
        return self._now

    def set(self, moment: datetime) -> None:
        """Move to a moment, also back: wall clocks get corrected, too."""
        self._now = _in_utc(moment)


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone; give for example datetime(2030, 1, 1, tzinfo=UTC)")
    return moment.astimezone(UTC)
