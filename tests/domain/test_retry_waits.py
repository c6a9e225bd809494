"""How long a retry waits: what the other side asks for, and the delays of the strategies."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.domain.delays import strategy_delay
from perdure.domain.retry import DelaySource, Fail, FailReason, Retry
from tests.domain.policies import DAY, LIMITS, NOW, a_failure, a_history, accept, asked, judge, wait

# 4. Waits that the other side asks for.


def test_a_requested_wait_is_kept_and_not_charged() -> None:
    assert judge({"jitter": "none"}, asked(120)) == Retry(NOW + timedelta(seconds=120), 120, DelaySource.SERVER, False)


def test_a_requested_wait_is_free_even_when_the_budget_is_spent() -> None:
    decision = judge({}, asked(120), a_history(retry_count=3))

    assert isinstance(decision, Retry)
    assert not decision.charged


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [(0, 10), (9.9, 10), (10, 10), (11, 11), (3600, 3600), (3601, 3600), (1e12, 3600), (float("inf"), 3600)],
)
def test_a_requested_wait_lies_between_the_own_delay_and_the_limit(retry_after: float, expected: float) -> None:
    assert wait(judge({"initial_delay_secs": 10, "jitter": "none"}, asked(retry_after))) == expected


@pytest.mark.parametrize("jitter", ["proportional", "full", "equal", "decorrelated"])
def test_a_requested_wait_is_spread_upward_only(jitter: str) -> None:
    raw = {"jitter": jitter, "jitter_ratio": 0.2}

    waits = [wait(judge(raw, asked(100), seed=seed)) for seed in range(200)]

    assert 100 <= min(waits) < 102
    assert 118 < max(waits) <= 120


def test_the_limit_holds_after_jitter_too() -> None:
    assert {wait(judge({"jitter_ratio": 1}, asked(3600), seed=seed)) for seed in range(20)} == {3600}


def test_a_schedule_is_not_cut_by_the_limit_for_servers() -> None:
    raw = {"strategy": "custom", "schedule": ["7d"]}

    assert wait(judge(raw, asked(60))) == 7 * DAY


def test_free_waits_are_counted_and_then_charged() -> None:
    last_free = judge({}, asked(120), a_history(free_waits=99))
    charged = judge({"jitter": "none"}, asked(120), a_history(free_waits=100))
    spent = judge({}, asked(120), a_history(retry_count=3, free_waits=100))

    assert isinstance(last_free, Retry)
    assert not last_free.charged
    assert charged == Retry(NOW + timedelta(seconds=120), 120, DelaySource.SERVER, True)
    assert spent == Fail(FailReason.EXHAUSTED)


@pytest.mark.parametrize("retry_after", [None, -1.0, float("nan"), float("-inf")])
def test_rate_limited_without_a_usable_wait_is_an_ordinary_retry(retry_after: float | None) -> None:
    decision = judge({"jitter": "none"}, asked(retry_after))

    assert decision == Retry(NOW + timedelta(seconds=5), 5, DelaySource.EXPONENTIAL, True)
    assert judge({}, asked(retry_after), a_history(3)) == Fail(FailReason.EXHAUSTED)


def test_only_rate_limited_failures_are_given_the_wait_they_ask_for() -> None:
    assert wait(judge({"jitter": "none"}, a_failure(retry_after=120))) == 5


# 6. The delay of the strategy.


@pytest.mark.parametrize(
    ("raw", "source", "delays"),
    [
        ({}, DelaySource.EXPONENTIAL, [5, 10, 20]),
        ({"initial_delay_secs": 1.5, "multiplier": 1}, DelaySource.EXPONENTIAL, [1.5, 1.5, 1.5]),
        ({"strategy": "fixed_delay", "delay_secs": 7}, DelaySource.FIXED, [7, 7, 7]),
        ({"strategy": "immediate", "initial_delay_secs": 9}, DelaySource.IMMEDIATE, [0, 0, 0]),
        ({"strategy": "custom", "schedule": [1, "1d"]}, DelaySource.CUSTOM, [1, DAY, DAY]),
    ],
)
def test_each_strategy(raw: dict[str, Any], source: DelaySource, delays: list[float]) -> None:
    decisions = [judge({"jitter": "none", **raw}, a_failure(), a_history(count)) for count in range(3)]

    assert decisions == [Retry(NOW + timedelta(seconds=delay), delay, source, True) for delay in delays]


def test_waits_that_were_free_do_not_lengthen_the_delay() -> None:
    history = a_history(retry_count=1, free_waits=50, worker_losses=3)

    assert wait(judge({"jitter": "none"}, a_failure(), history)) == 10


@pytest.mark.parametrize(
    ("raw", "low", "high"),
    [
        ({"jitter": "proportional"}, 90, 110),
        ({"jitter": "proportional", "jitter_ratio": 0.5}, 50, 150),
        ({"jitter": "full"}, 0, 100),
        ({"jitter": "equal"}, 50, 100),
        ({"jitter": "decorrelated"}, 100, 240),
        ({"jitter": "proportional", "max_delay_secs": 100}, 90, 100),
    ],
)
def test_each_kind_of_jitter_fills_its_bounds(raw: dict[str, Any], low: float, high: float) -> None:
    raw = {"initial_delay_secs": 100, **raw}
    history = a_history(previous_delay_secs=80)

    waits = [wait(judge(raw, a_failure(), history, seed=seed)) for seed in range(400)]

    margin = (high - low) / 20
    assert low <= min(waits) < low + margin
    assert high - margin < max(waits) <= high


def test_decorrelated_jitter_starts_from_the_initial_delay() -> None:
    waits = [wait(judge({"jitter": "decorrelated"}, a_failure(), seed=seed)) for seed in range(300)]

    assert 5 <= min(waits) < 5.5
    assert 14.5 < max(waits) <= 15


def test_the_same_seed_gives_the_same_decision() -> None:
    assert judge({}, a_failure(), seed=7) == judge({}, a_failure(), seed=7)
    assert judge({}, a_failure(), seed=7) != judge({}, a_failure(), seed=8)


def test_a_first_delay_of_zero_stays_zero_however_it_grows() -> None:
    policy = accept({"max_retries": 1, "first_delays": [1, 0], "multiplier": 1e308})

    assert [strategy_delay(policy, count, LIMITS) for count in (0, 1, 2, 10**6)] == [1, 0, 0, 0]
