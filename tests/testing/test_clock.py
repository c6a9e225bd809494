"""The virtual clock: time stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from perdure.clock import Clock
from perdure.testing import VirtualClock

NOON = datetime(2030, 6, 1, 12, 0, tzinfo=UTC)


def test_it_is_a_clock() -> None:
    clock: Clock = VirtualClock(NOON)

    assert clock.now() == NOON


def test_time_stands_still() -> None:
    clock = VirtualClock()

    assert clock.now() == clock.now()
    assert VirtualClock().now() == clock.now()


@pytest.mark.parametrize(
    ("by", "passed"),
    [
        (90, timedelta(seconds=90)),
        (0.25, timedelta(milliseconds=250)),
        ("90s", timedelta(seconds=90)),
        ("1h30m", timedelta(minutes=90)),
        ("7d", timedelta(days=7)),
    ],
)
def test_it_advances_by_seconds_or_by_a_duration(by: float | str, passed: timedelta) -> None:
    clock = VirtualClock(NOON)

    assert clock.advance(by) == NOON + passed
    assert clock.now() == NOON + passed


def test_it_does_not_advance_backwards() -> None:
    clock = VirtualClock(NOON)

    with pytest.raises(ValueError, match="zero or more seconds"):
        clock.advance(-1)

    assert clock.now() == NOON


def test_it_is_set_to_any_moment() -> None:
    clock = VirtualClock(NOON)

    clock.set(NOON - timedelta(hours=1))

    assert clock.now() == NOON - timedelta(hours=1)


def test_its_time_is_utc_whatever_it_was_given() -> None:
    clock = VirtualClock(datetime(2030, 6, 1, 14, 0, tzinfo=timezone(timedelta(hours=2))))

    assert clock.now() == NOON
    assert clock.now().tzinfo is UTC


def test_a_moment_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        VirtualClock(datetime(2030, 6, 1))  # noqa: DTZ001 - the point of the test
    with pytest.raises(ValueError, match="has no time zone"):
        VirtualClock(NOON).set(datetime(2030, 6, 1))  # noqa: DTZ001 - the point of the test
