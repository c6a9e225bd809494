"""The [backoff] section of the configuration: defaults of policies that say nothing, and a ceiling for all."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.delays import strategy_delay
from perdure.domain.model import Failure
from perdure.domain.policy import Backoff, Jitter, RetryLimits, RetryPolicy, Strategy
from perdure.domain.retry import History, Retry, decide
from tests.domain.policies import (
    BACKOFF_LIMITS,
    DAY,
    LIMITS,
    NOW,
    a_failure,
    a_history,
    accept,
    backoff_limits,
    failures,
    histories,
    policies,
    refuse,
)


def with_section(limits: RetryLimits = BACKOFF_LIMITS, **section: Any) -> RetryLimits:
    return replace(limits, backoff=replace(limits.backoff, **section))


def delays_of(raw: dict[str, Any], limits: RetryLimits, count: int = 8) -> list[float]:
    policy = accept({"max_retries": 10, **raw}, limits)
    return [strategy_delay(policy, retry_count, limits) for retry_count in range(count)]


def test_without_the_section_the_defaults_are_those_of_a_policy() -> None:
    assert LIMITS.backoff == Backoff(
        default_backoff_seconds=(5.0,),
        max_backoff_seconds=300.0,
        backoff_multiplier=2.0,
        jitter_enabled=True,
        jitter_max_percentage=0.1,
    )
    assert delays_of({}, LIMITS) == [5, 10, 20, 40, 80, 160, 300, 300]


def test_the_list_gives_the_first_delays_then_multiplier_and_cap() -> None:
    assert delays_of({}, BACKOFF_LIMITS) == [1, 2, 4, 8, 16, 32, 60, 60]
    assert delays_of({}, with_section(default_backoff_seconds=(1, 5, 7))) == [1, 5, 7, 14, 28, 56, 60, 60]


def test_a_list_that_the_formula_says_as_well_is_not_shown() -> None:
    shown = accept({"max_retries": 3}, BACKOFF_LIMITS).to_json()

    assert (shown["initial_delay_secs"], shown["backoff_multiplier"], shown["max_delay_secs"]) == (1, 2.0, 60)
    assert "first_delays" not in shown


def test_any_other_list_is_stored_with_the_policy() -> None:
    limits = with_section(default_backoff_seconds=(1, 5, 7))
    policy = accept({"max_retries": 3}, limits)

    assert policy.to_json()["first_delays"] == [1, 5, 7]
    assert RetryPolicy.from_json(policy.to_json()) == policy
    assert accept(policy.to_json(), LIMITS).first_delays == (1.0, 5.0, 7.0)


def test_a_multiplier_of_its_own_works_beyond_the_list() -> None:
    limits = with_section(default_backoff_seconds=(1, 2, 4))

    assert delays_of({"multiplier": 3}, limits, 5) == [1, 2, 4, 12, 36]


def test_a_delay_of_its_own_sets_the_list_aside() -> None:
    limits = with_section(default_backoff_seconds=(1, 5, 7))

    assert delays_of({"initial_delay_secs": 3}, limits) == [3, 6, 12, 24, 48, 60, 60, 60]
    assert delays_of({"strategy": "fixed_delay", "delay_secs": 9}, limits, 2) == [9, 9]
    assert delays_of({"strategy": "immediate"}, limits, 2) == [0, 0]


def test_a_cap_of_its_own_holds_for_the_list() -> None:
    assert delays_of({"max_delay_secs": 5}, BACKOFF_LIMITS, 5) == [1, 2, 4, 5, 5]


def test_a_list_beyond_the_maximum_is_cut() -> None:
    assert delays_of({}, with_section(default_backoff_seconds=(10, 100, 20)), 4) == [10, 60, 20, 40]
    assert delays_of({}, with_section(default_backoff_seconds=(100,)), 2) == [60, 60]


@pytest.mark.parametrize("field", ["max_delay_secs", "delay_secs"])
def test_a_delay_above_the_ceiling_is_refused(field: str) -> None:
    assert refuse({"max_retries": 3, field: 61}, BACKOFF_LIMITS) == [
        f"retry.{field}: must be between 0 and 60 (RETRY_MAX_DELAY_LIMIT), is 61"
    ]


def test_a_delay_limit_set_apart_is_the_ceiling_and_the_section_the_default() -> None:
    limits = replace(BACKOFF_LIMITS, max_delay_limit=7200)

    assert accept({"max_retries": 3}, limits).max_delay_secs == 60
    assert accept({"max_retries": 3, "max_delay_secs": 7200}, limits).max_delay_secs == 7200


@pytest.mark.parametrize("delay", [0.05, 0.5])
def test_an_operator_may_set_the_first_delay_below_a_second(delay: float) -> None:
    limits = with_section(default_backoff_seconds=(delay,))

    assert delays_of({}, limits, 2) == [delay, 2 * delay]
    assert delays_of({"initial_delay_secs": delay}, limits, 2) == [delay, 2 * delay]


def test_a_ceiling_below_a_second_leaves_policies_usable() -> None:
    limits = replace(with_section(max_backoff_seconds=0.05), max_delay_limit=0.05)

    assert delays_of({}, limits, 2) == [0.05, 0.05]


def test_jitter_disabled_is_no_jitter_by_default() -> None:
    limits = with_section(jitter_enabled=False)

    assert accept({"max_retries": 3}, limits).jitter is Jitter.NONE
    assert accept({"max_retries": 3, "jitter": "full"}, limits).jitter is Jitter.FULL


def test_the_percentage_is_the_default_ratio() -> None:
    assert accept({"max_retries": 3}, with_section(jitter_max_percentage=0.3)).jitter_ratio == 0.3


def test_custom_schedules_say_their_delays_outright() -> None:
    raw = {"max_retries": 2, "strategy": "custom", "schedule": ["7d", "14d"]}

    assert delays_of(raw, BACKOFF_LIMITS, 2) == [7 * DAY, 14 * DAY]


def test_a_ceiling_lowered_later_holds_for_policies_accepted_before() -> None:
    policy = accept({"max_retries": 10, "initial_delay_secs": 100, "jitter": "none"}, LIMITS)

    decision = decide(policy, a_history(), a_failure(), NOW, Random(1), BACKOFF_LIMITS)

    assert isinstance(decision, Retry)
    assert decision.delay_secs == 60


@given(policies(), backoff_limits(), histories(), failures(), st.randoms(use_true_random=False))
def test_no_computed_or_requested_delay_exceeds_the_ceiling(
    policy: RetryPolicy, limits: RetryLimits, history: History, failure: Failure, rng: Random
) -> None:
    decision = decide(policy, history, failure, NOW, rng, limits)

    if isinstance(decision, Retry) and policy.strategy is not Strategy.CUSTOM:
        assert decision.delay_secs <= limits.backoff.max_backoff_seconds
