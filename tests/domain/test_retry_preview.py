"""The timeline of a policy before anything has failed."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given

from perdure.domain.delays import own_spread
from perdure.domain.policy import Jitter, RetryPolicy
from perdure.domain.preview import Preview, preview
from tests.domain.policies import BACKOFF_LIMITS, DAY, LIMITS, NOW, accept, moments, policies


def preview_of(raw: dict[str, Any]) -> Preview:
    return preview(accept(raw), LIMITS, NOW)


def test_a_timeline_without_jitter() -> None:
    shown = preview_of({"max_retries": 3, "initial_delay_secs": 10, "jitter": "none"}).to_json()

    assert shown["timeline"] == [
        {"attempt": 1, "delay_secs": 10, "earliest_secs": 10, "expected_secs": 10, "latest_secs": 10},
        {"attempt": 2, "delay_secs": 20, "earliest_secs": 30, "expected_secs": 30, "latest_secs": 30},
        {"attempt": 3, "delay_secs": 40, "earliest_secs": 70, "expected_secs": 70, "latest_secs": 70},
    ]
    assert shown["total_span_secs"] == 70
    assert shown["warnings"] == []
    assert shown["policy"]["max_retries"] == 3


@pytest.mark.parametrize(
    ("jitter", "rows"),
    [
        ("proportional", [(9, 10, 11), (27, 30, 33)]),
        ("full", [(0, 5, 10), (0, 15, 30)]),
        ("equal", [(5, 7.5, 10), (15, 22.5, 30)]),
        ("decorrelated", [(10, 20, 30), (20, 55, 120)]),
    ],
)
def test_jitter_widens_the_timeline(jitter: str, rows: list[tuple[float, float, float]]) -> None:
    timeline = preview_of({"max_retries": 2, "initial_delay_secs": 10, "jitter": jitter}).timeline

    assert [(row.earliest_secs, row.expected_secs, row.latest_secs) for row in timeline] == rows


def test_at_the_cap_delays_are_expected_earlier() -> None:
    (row,) = preview_of({"max_retries": 1, "initial_delay_secs": 100, "max_delay_secs": 100}).timeline

    assert (row.delay_secs, row.earliest_secs, row.expected_secs, row.latest_secs) == (100, 90, 97.5, 100)


@pytest.mark.parametrize("jitter", list(Jitter))
@pytest.mark.parametrize("max_delay_secs", [100, 108, 300])
def test_what_is_expected_is_the_average(jitter: Jitter, max_delay_secs: float) -> None:
    raw = {"initial_delay_secs": 100, "max_delay_secs": max_delay_secs, "jitter": jitter.value}
    policy = accept({"max_retries": 1, **raw})
    spread, rng = own_spread(policy, 0, None, LIMITS), Random(5)

    average = fmean(spread.draw(rng) for _ in range(20_000))

    assert preview(policy, LIMITS, NOW).timeline[0].expected_secs == pytest.approx(average, rel=0.02)


def test_a_schedule_of_weeks() -> None:
    shown = preview_of({"strategy": "custom", "max_retries": 3, "schedule": ["7d", "14d"]})

    assert [row.expected_secs / DAY for row in shown.timeline] == [7, 21, 35]
    assert shown.total_span_secs == 35 * DAY


def test_the_section_of_the_configuration_holds_in_the_preview() -> None:
    policy = accept({"max_retries": 8}, BACKOFF_LIMITS)

    delays = [row.delay_secs for row in preview(policy, BACKOFF_LIMITS, NOW).timeline]

    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]


@pytest.mark.parametrize(
    ("expiry", "field"),
    [
        ({"expires_after_secs": 100}, "expires_after_secs"),
        ({"expires_at": (NOW + timedelta(seconds=100)).isoformat()}, "expires_at"),
    ],
)
def test_warnings_of_retries_after_the_expiry(expiry: dict[str, Any], field: str) -> None:
    raw = {"max_retries": 5, "initial_delay_secs": 10, "jitter": "none", **expiry}

    assert preview_of(raw).warnings == (f"attempt 4 falls after {field}", f"attempt 5 falls after {field}")


def test_warnings_of_retries_that_jitter_may_move_behind_the_expiry() -> None:
    raw = {"max_retries": 3, "initial_delay_secs": 10, "expires_after_secs": 71}

    assert preview_of(raw).warnings == ("attempt 3 may fall after expires_after_secs",)


@pytest.mark.parametrize(
    ("raw", "warning"),
    [
        ({"enabled": False}, "enabled is false: nothing is retried"),
        (
            {"max_retries": 1, "delay_secs": 3},
            "delay_secs has no effect with strategy exponential_backoff, only with fixed_delay",
        ),
        (
            {"max_retries": 1, "schedule": ["7d"]},
            "schedule has no effect with strategy exponential_backoff, only with custom",
        ),
        (
            {"max_retries": 1, "strategy": "custom", "schedule": [1, 2, 3]},
            "schedule has 3 delays, of which max_retries uses 1",
        ),
    ],
)
def test_warnings_of_what_has_no_effect(raw: dict[str, Any], warning: str) -> None:
    assert preview_of(raw).warnings == (warning,)


def test_a_disabled_policy_has_no_timeline() -> None:
    shown = preview_of({"enabled": False, "max_retries": 3})

    assert shown.timeline == ()
    assert shown.total_span_secs == 0


@given(policies(), moments())
def test_every_accepted_policy_has_a_timeline_in_order(policy: RetryPolicy, now: datetime) -> None:
    shown = preview(policy, LIMITS, now)

    assert [row.attempt for row in shown.timeline] == list(range(1, policy.max_retries + 1))
    assert len(shown.warnings) <= 20
    for row in shown.timeline:
        assert 0 <= row.earliest_secs <= row.expected_secs + 1e-5
        assert row.expected_secs <= row.latest_secs + 1e-5
