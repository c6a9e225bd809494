"""The policies and the lists of unit tests in the founding documents, by the number of the document."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from perdure.domain.delays import strategy_delay
from perdure.domain.model import ErrorClass, FailureTrigger
from perdure.domain.policy import Jitter, RetryLimits, Strategy
from perdure.domain.requested_delay import requested_delay
from perdure.domain.retry import DelaySource, Fail, FailReason, Retry, decide
from tests.domain.policies import (
    BACKOFF_LIMITS,
    DAY,
    LIMITS,
    NOW,
    a_failure,
    a_history,
    accept,
    fields_refused,
)

EXPONENTIAL_002 = {
    "retry_strategy": "exponential_backoff",
    "max_attempts": 5,
    "initial_delay_seconds": 60,
    "multiplier": 2.0,
    "max_delay_seconds": 3600,
}
NODE_002 = {
    "enabled": True,
    "strategy": "exponential_backoff",
    "maxAttempts": 5,
    "initialDelaySeconds": 60,
    "multiplier": 2.0,
    "maxDelaySeconds": 3600,
    "retryOn": ["5xx", "408", "429"],
    "ignoreExceptions": ["4xx"],
}

# Document, policy as written there, strategy and delays of its retries.
EXAMPLES: list[tuple[str, dict[str, Any], Strategy, list[float]]] = [
    (
        "000-import",
        {"max_retries": 3, "initial_delay_secs": 10, "backoff_multiplier": 2.0, "max_delay_secs": 120},
        Strategy.EXPONENTIAL_BACKOFF,
        [10, 20, 40],
    ),
    (
        "001-defaults",
        {"max_attempts": 8, "initial_delay_secs": 60, "max_delay_secs": 3600, "backoff_multiplier": 2.0},
        Strategy.EXPONENTIAL_BACKOFF,
        [60, 120, 240, 480, 960, 1920, 3600, 3600],
    ),
    (
        "002-immediate",
        {"retry_strategy": "immediate", "max_attempts": 3, "initial_delay_seconds": 0},
        Strategy.IMMEDIATE,
        [0, 0, 0],
    ),
    ("002-exponential", EXPONENTIAL_002, Strategy.EXPONENTIAL_BACKOFF, [60, 120, 240, 480, 960]),
    (
        "002-fixed",
        {"retry_strategy": "fixed_delay", "max_attempts": 3, "delay_seconds": 300},
        Strategy.FIXED_DELAY,
        [300, 300, 300],
    ),
    (
        "002-custom",
        {
            "retry_strategy": "custom",
            "max_attempts": 2,
            "custom_schedule": {"attempts": [{"attempt": 1, "delay_days": 7}, {"attempt": 2, "delay_days": 14}]},
        },
        Strategy.CUSTOM,
        [7 * DAY, 14 * DAY],
    ),
    ("002-node", NODE_002, Strategy.EXPONENTIAL_BACKOFF, [60, 120, 240, 480, 960]),
    (
        "002-fourteen-days",
        {
            "enabled": True,
            "strategy": "custom",
            "maxAttempts": 2,
            "customSchedule": {"attempts": [{"attempt": 1, "delayDays": 7}, {"attempt": 2, "delayDays": 14}]},
        },
        Strategy.CUSTOM,
        [7 * DAY, 14 * DAY],
    ),
]


@pytest.mark.parametrize(("raw", "strategy", "delays"), [pytest.param(*case[1:], id=case[0]) for case in EXAMPLES])
def test_examples_are_accepted_as_they_stand(raw: dict[str, Any], strategy: Strategy, delays: list[float]) -> None:
    policy = accept(raw)

    assert policy.strategy is strategy
    assert policy.max_retries == len(delays)
    assert [strategy_delay(policy, count, LIMITS) for count in range(len(delays))] == delays


# 000, section 1: defaults of the fields, and section 11: validation.


def test_000_defaults() -> None:
    policy = accept({"max_retries": 3})

    assert (policy.initial_delay_secs, policy.backoff_multiplier, policy.max_delay_secs) == (5, 2.0, 300)
    assert policy.retry_on is None


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"max_retries": 0}, "max_retries"),
        ({"max_retries": 11}, "max_retries"),
        ({"max_retries": 1, "initial_delay_secs": 0}, "initial_delay_secs"),
        ({"max_retries": 1, "backoff_multiplier": 0.99}, "backoff_multiplier"),
        ({"max_retries": 1, "initial_delay_secs": 10, "max_delay_secs": 9}, "max_delay_secs"),
        ({"max_retries": 1, "max_delay_secs": 3601}, "max_delay_secs"),
        ({"max_retries": 1, "retry_on": []}, "retry_on"),
    ],
)
def test_000_validation(raw: dict[str, Any], field: str) -> None:
    assert fields_refused(raw) == [f"retry.{field}"]


def test_000_limits_are_configured() -> None:
    limits = RetryLimits(max_retries_limit=20, max_delay_limit=7200)

    accept({"max_retries": 20, "max_delay_secs": 7200}, limits)
    assert fields_refused({"max_retries": 21, "max_delay_secs": 7201}, limits) == [
        "retry.max_retries",
        "retry.max_delay_secs",
    ]


# 000, section 13: unit tests of the decision and of the delay.


@pytest.mark.parametrize("trigger", ["timeout", "webhook_failure", "explicit"])
@pytest.mark.parametrize("retry_on", [None, ["timeout"], ["webhook_failure", "explicit"]])
def test_000_should_retry_by_policy_and_failure_type(trigger: str, retry_on: list[str] | None) -> None:
    policy = accept({"max_retries": 3, "retry_on": retry_on})

    decision = decide(policy, a_history(), a_failure(FailureTrigger(trigger)), NOW, Random(1), LIMITS)

    if retry_on is None or trigger in retry_on:
        assert isinstance(decision, Retry)
    else:
        assert decision == Fail(FailReason.NOT_RETRYABLE)


def test_000_should_retry_only_with_a_policy_and_within_its_budget() -> None:
    policy = accept({"max_retries": 3, "jitter": "none"})

    assert decide(None, a_history(), a_failure(), NOW, Random(1), LIMITS) == Fail(FailReason.NO_POLICY)
    assert isinstance(decide(policy, a_history(2), a_failure(), NOW, Random(1), LIMITS), Retry)
    assert decide(policy, a_history(3), a_failure(), NOW, Random(1), LIMITS) == Fail(FailReason.EXHAUSTED)


def test_000_backoff_delay_grows_and_is_capped() -> None:
    policy = accept({"max_retries": 10, "initial_delay_secs": 10, "max_delay_secs": 120, "jitter": "none"})
    decisions = [decide(policy, a_history(count), a_failure(), NOW, Random(1), LIMITS) for count in range(6)]

    waits = [decision.at - NOW for decision in decisions if isinstance(decision, Retry)]

    assert waits == [timedelta(seconds=secs) for secs in (10, 20, 40, 80, 120, 120)]


# 001, phase 5: unit tests of the retry logic.

DEFAULTS_001 = EXAMPLES[1][1]


def test_001_exponential_backoff_calculation() -> None:
    policy = accept({**DEFAULTS_001, "jitter": "none"})

    for count, secs in enumerate((60, 120, 240, 480, 960, 1920, 3600, 3600)):
        assert decide(policy, a_history(count), a_failure(), NOW, Random(1), LIMITS) == Retry(
            NOW + timedelta(seconds=secs), float(secs), DelaySource.EXPONENTIAL, True
        )


def test_001_max_attempts_enforcement() -> None:
    decision = decide(accept(DEFAULTS_001), a_history(8), a_failure(), NOW, Random(1), LIMITS)

    assert decision == Fail(FailReason.EXHAUSTED)


def test_001_rate_limited_retry_scheduling() -> None:
    policy = accept({**DEFAULTS_001, "jitter": "none"})
    told = a_failure(error_class=ErrorClass.RATE_LIMITED, retry_after=700)
    untold = a_failure(error_class=ErrorClass.RATE_LIMITED)

    assert decide(policy, a_history(), told, NOW, Random(1), LIMITS) == Retry(
        NOW + timedelta(seconds=700), 700, DelaySource.SERVER, False
    )
    assert decide(policy, a_history(), untold, NOW, Random(1), LIMITS) == Retry(
        NOW + timedelta(seconds=60), 60, DelaySource.EXPONENTIAL, True
    )


def test_001_final_error_handling() -> None:
    failure = a_failure(error_class=ErrorClass.FINAL)

    assert decide(accept(DEFAULTS_001), a_history(), failure, NOW, Random(1), LIMITS) == Fail(FailReason.FINAL)


# 002: what the node's configuration means for the answers that it names.


@pytest.mark.parametrize(
    ("status", "error_class", "retried"),
    [
        (500, ErrorClass.RETRYABLE, True),
        (503, ErrorClass.RETRYABLE, True),
        (408, ErrorClass.RETRYABLE, True),
        (429, ErrorClass.RATE_LIMITED, True),
        (404, ErrorClass.FINAL, False),
        (425, ErrorClass.RETRYABLE, False),
        (302, ErrorClass.FINAL, False),
    ],
)
def test_002_retry_on_and_ignore_exceptions(status: int, error_class: ErrorClass, retried: bool) -> None:
    failure = a_failure(error_class=error_class, status=status)

    decision = decide(accept(NODE_002), a_history(), failure, NOW, Random(1), LIMITS)

    assert isinstance(decision, Retry) is retried


def test_002_past_the_schedule_the_last_delay_repeats() -> None:
    policy = accept({**EXAMPLES[5][1], "max_attempts": 5})

    assert [strategy_delay(policy, count, LIMITS) / DAY for count in range(5)] == [7, 14, 14, 14, 14]


# 003, phase 4: unit tests of the backoff, with the [backoff] section of its phase 1.


def test_003_exponential_calculation_accuracy() -> None:
    policy = accept({"max_retries": 10, "jitter": "none"}, BACKOFF_LIMITS)

    delays = [strategy_delay(policy, count, BACKOFF_LIMITS) for count in range(10)]

    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_003_jitter_bounds() -> None:
    policy = accept({"max_retries": 10, "initial_delay_secs": 10}, BACKOFF_LIMITS)
    assert (policy.jitter, policy.jitter_ratio) == (Jitter.PROPORTIONAL, 0.1)

    delays = []
    for seed in range(300):
        decision = decide(policy, a_history(), a_failure(), NOW, Random(seed), BACKOFF_LIMITS)
        assert isinstance(decision, Retry)
        delays.append(decision.delay_secs)

    assert 9 <= min(delays) < 9.2
    assert 10.8 < max(delays) <= 11


@pytest.mark.parametrize("retry_count", range(10))
@pytest.mark.parametrize("retry_after", [None, 59.0, 61.0, 1e12])
def test_003_max_cap_enforcement(retry_count: int, retry_after: float | None) -> None:
    policy = accept({"max_retries": 10}, BACKOFF_LIMITS)
    failure = a_failure(error_class=ErrorClass.RATE_LIMITED, retry_after=retry_after)

    decision = decide(policy, a_history(retry_count), failure, NOW, Random(retry_count), BACKOFF_LIMITS)

    assert isinstance(decision, Retry)
    assert decision.delay_secs <= 60


def test_003_retry_after_header_parsing() -> None:
    assert requested_delay({"Retry-After": "60"}, NOW) == 60
    assert requested_delay({"Retry-After": "Thu, 31 Jan 2030 12:01:00 GMT"}, NOW) == 60


@pytest.mark.parametrize(("attempts", "delay"), [(0, 1), (10, 60), (20, 60)])
def test_003_boundary_conditions_of_attempts(attempts: int, delay: float) -> None:
    policy = accept({"max_retries": 1}, BACKOFF_LIMITS)

    assert strategy_delay(policy, attempts, BACKOFF_LIMITS) == delay
