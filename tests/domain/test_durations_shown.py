"""Lengths of time for people to read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.durations import parse_duration, show_duration


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"), (0.001, "1ms"), (0.25, "250ms"), (0.9996, "1s"), (1, "1s"), (4.5, "4.5s"), (59.94, "59.9s"),
        (59.96, "1m"), (60, "1m"), (61, "1m1s"), (90, "1m30s"), (3599, "59m59s"), (3599.6, "1h"), (3660, "1h1m"),
        (86_369, "23h59m"), (86_399, "1d"), (608_400, "7d1h"), (31_536_000, "365d"),
    ],
)  # fmt: skip
def test_a_duration_is_shown_in_at_most_two_units(seconds: float, shown: str) -> None:
    assert show_duration(seconds) == shown


@given(st.floats(0.001, 1e9))
def test_what_is_shown_is_nearly_what_it_is(seconds: float) -> None:
    assert parse_duration(show_duration(seconds)) == pytest.approx(seconds, rel=0.05, abs=0.0005)
