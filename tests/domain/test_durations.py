"""Lengths of time as people write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.durations import parse_duration


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0),
        (90, 90),
        (1.5, 1.5),
        ("90", 90),
        ("0", 0),
        ("1.25", 1.25),
        ("250ms", 0.25),
        ("90s", 90),
        ("90 s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("30m1h", 5400),
        ("1.5h", 5400),
        ("7d", 604_800),
        ("2w", 1_209_600),
        (" 1D ", 86_400),
        ("1w2d3h4m5s6ms", 604_800 + 2 * 86_400 + 3 * 3600 + 4 * 60 + 5.006),
    ],
)
def test_what_people_write(value: str | float, seconds: float) -> None:
    assert parse_duration(value) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "is no duration"),
        ("soon", "'soon' is no duration; write for example '90s', '1h30m' or '7d'"),
        ("-5s", "is no duration"),
        ("5 minutes", "is no duration"),
        ("1h-30m", "is no duration"),
        ("1e3", "is no duration"),
        ("٣s", "is no duration"),
        ("1h1h", "names a unit twice"),
        ("9" * 40, "is no duration"),
        (-1, "must be zero or more seconds"),
        (-0.001, "must be zero or more seconds"),
        (math.nan, "must be zero or more seconds"),
        (math.inf, "must be zero or more seconds"),
        (10**400, "is too long"),
        (True, "must be a number of seconds or a duration"),
        (None, "must be a number of seconds or a duration"),
        (["5s"], "must be a number of seconds or a duration"),
    ],
)
def test_what_is_refused_says_why(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_duration(value)  # type: ignore[arg-type]


@given(st.text(max_size=60))
def test_any_text_is_a_finite_duration_or_refused(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except ValueError as refused:
        assert len(str(refused)) < 200
    else:
        assert math.isfinite(seconds)
        assert seconds >= 0


@given(st.integers(0, 10**9))
def test_whole_seconds_mean_the_same_in_every_spelling(seconds: int) -> None:
    minutes, rest = divmod(seconds, 60)

    assert parse_duration(seconds) == parse_duration(str(seconds)) == parse_duration(f"{minutes}m{rest}s") == seconds
