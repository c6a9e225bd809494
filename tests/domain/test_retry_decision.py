"""Whether and when a failure is retried: the seven steps, in their order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from perdure.domain.model import ErrorClass, Failure, FailureTrigger
from perdure.domain.policy import RetryLimits, RetryPolicy
from perdure.domain.retry import DelaySource, Fail, FailReason, History, Retry, decide
from tests.domain.policies import DAY, LIMITS, NOW, a_failure, a_history, accept

FINAL, RETRYABLE, RATE_LIMITED = ErrorClass.FINAL, ErrorClass.RETRYABLE, ErrorClass.RATE_LIMITED
LOST = a_failure(FailureTrigger.WORKER_LOST)


def judge(
    raw: dict[str, Any],
    failure: Failure,
    history: History | None = None,
    limits: RetryLimits = LIMITS,
    seed: int = 1,
    now: datetime = NOW,
) -> Retry | Fail:
    policy = accept({"max_retries": 3, **raw})
    return decide(policy, history or a_history(), failure, now, Random(seed), limits)


def wait(decision: Retry | Fail) -> float:
    assert isinstance(decision, Retry), decision
    return decision.delay_secs


# 1. Without a policy.


def test_without_a_policy_a_failure_is_the_end() -> None:
    assert decide(None, a_history(), a_failure(), NOW, Random(1), LIMITS) == Fail(FailReason.NO_POLICY)


def test_a_disabled_policy_is_none() -> None:
    assert judge({"enabled": False}, a_failure(error_class=FINAL)) == Fail(FailReason.NO_POLICY)


# 2. Final failures.


def test_a_final_failure_is_not_retried() -> None:
    assert judge({}, a_failure(error_class=FINAL)) == Fail(FailReason.FINAL)


@pytest.mark.parametrize("condition", ["404", "4xx", "no_such_account", "webhook_failure"])
def test_a_final_failure_is_retried_when_the_policy_names_it(condition: str) -> None:
    failure = a_failure(error_class=FINAL, status=404, code="no_such_account")

    assert isinstance(judge({"retry_on": [condition]}, failure), Retry)


def test_a_final_failure_that_the_policy_does_not_name_is_final_before_all() -> None:
    failure = a_failure(error_class=FINAL, status=404)

    assert judge({"retry_on": ["5xx"], "ignore": ["404"]}, failure) == Fail(FailReason.FINAL)


def test_a_final_failure_is_named_by_itself_and_not_by_default() -> None:
    assert judge({"retry_on": None}, a_failure(error_class=FINAL, status=404)) == Fail(FailReason.FINAL)


# 3. What is retried and what is ignored: the most specific condition wins.

ANSWER = a_failure(status=503, code="overloaded")


@pytest.mark.parametrize(
    ("retry_on", "ignore", "reason"),
    [
        (["503"], [], None),
        (["5xx"], [], None),
        (["overloaded"], [], None),
        (["webhook_failure"], [], None),
        (["timeout", "4xx", "502", "other"], [], "not_retryable"),
        (["502", "explicit"], ["503"], "not_retryable"),
        (None, ["503"], "ignored"),
        (None, ["5xx"], "ignored"),
        (None, ["overloaded"], "ignored"),
        (None, ["webhook_failure"], "ignored"),
        (None, ["timeout", "4xx", "502", "other"], None),
        (["503"], ["5xx"], None),
        (["503"], ["webhook_failure"], None),
        (["5xx"], ["webhook_failure"], None),
        (["overloaded"], ["5xx", "webhook_failure"], None),
        (["5xx"], ["503"], "ignored"),
        (["5xx"], ["overloaded"], "ignored"),
        (["webhook_failure"], ["5xx"], "ignored"),
        (["webhook_failure"], ["503"], "ignored"),
        (["503"], ["503"], "ignored"),
        (["503"], ["overloaded"], "ignored"),
        (["5xx"], ["5xx"], "ignored"),
        (["webhook_failure"], ["webhook_failure"], "ignored"),
        (["webhook_failure", "503"], ["5xx"], None),
    ],
)
def test_the_most_specific_condition_wins(retry_on: list[str] | None, ignore: list[str], reason: str | None) -> None:
    decision = judge({"retry_on": retry_on, "ignore": ignore}, ANSWER)

    assert isinstance(decision, Retry) if reason is None else decision == Fail(FailReason(reason))


@pytest.mark.parametrize(
    ("failure", "condition"),
    [
        (a_failure(code="connection_error"), "connection_error"),
        (a_failure(code="dns_error"), "dns_error"),
        (a_failure(code="read_timeout"), "read_timeout"),
        (a_failure(FailureTrigger.EXPLICIT, code="ValueError"), "ValueError"),
        (a_failure(FailureTrigger.EXPLICIT, code="timeout"), "timeout"),
        (a_failure(FailureTrigger.TIMEOUT), "timeout"),
        (LOST, "worker_lost"),
    ],
)
def test_what_a_condition_can_name(failure: Failure, condition: str) -> None:
    assert isinstance(judge({"retry_on": [condition]}, failure), Retry)
    assert judge({"ignore": [condition]}, failure) == Fail(FailReason.IGNORED)


# 4. Waits that the other side asks for.


def asked(retry_after: float | None) -> Failure:
    return a_failure(error_class=RATE_LIMITED, status=429, retry_after=retry_after)


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


# 5. The budget.


@pytest.mark.parametrize(("spent", "retried"), [(0, True), (2, True), (3, False), (4, False)])
def test_the_budget(spent: int, retried: bool) -> None:
    decision = judge({}, a_failure(), a_history(spent))

    assert isinstance(decision, Retry) if retried else decision == Fail(FailReason.EXHAUSTED)


def test_lost_workers_are_free_up_to_a_number() -> None:
    free = judge({}, LOST, a_history(retry_count=3, worker_losses=4))
    charged = judge({}, LOST, a_history(retry_count=2, worker_losses=5))
    spent = judge({}, LOST, a_history(retry_count=3, worker_losses=5))

    assert isinstance(free, Retry)
    assert not free.charged
    assert isinstance(charged, Retry)
    assert charged.charged
    assert spent == Fail(FailReason.EXHAUSTED)


def test_the_number_of_free_losses_is_configured() -> None:
    decision = judge({}, LOST, a_history(), replace(LIMITS, max_worker_losses=0))

    assert isinstance(decision, Retry)
    assert decision.charged


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


# 7. The deadline.


@pytest.mark.parametrize(("seconds", "retried"), [(4.9, False), (5, True), (5.1, True)])
def test_no_retry_starts_after_the_expiry(seconds: float, retried: bool) -> None:
    expiry = NOW + timedelta(seconds=seconds)

    for raw in ({"expires_at": expiry.isoformat()}, {"expires_after_secs": seconds}):
        decision = judge({"jitter": "none", **raw}, a_failure())
        assert isinstance(decision, Retry) if retried else decision == Fail(FailReason.RETRY_DEADLINE)


def test_the_expiry_counts_from_the_creation_of_the_task() -> None:
    history = a_history(created_at=NOW - timedelta(seconds=60))

    assert isinstance(judge({"expires_after_secs": 70}, a_failure(), history), Retry)
    assert judge({"expires_after_secs": 60}, a_failure(), history) == Fail(FailReason.RETRY_DEADLINE)


def test_of_two_expiries_the_earlier_counts() -> None:
    late, early = (NOW + timedelta(days=1)).isoformat(), (NOW + timedelta(seconds=1)).isoformat()

    for raw in ({"expires_at": late, "expires_after_secs": 1}, {"expires_at": early, "expires_after_secs": DAY}):
        assert judge(raw, a_failure()) == Fail(FailReason.RETRY_DEADLINE)


@pytest.mark.parametrize("failure", [asked(120), LOST])
def test_the_expiry_holds_for_free_retries_too(failure: Failure) -> None:
    assert judge({"expires_after_secs": 1}, failure) == Fail(FailReason.RETRY_DEADLINE)


def test_a_spent_budget_is_told_before_the_expiry() -> None:
    decision = judge({"expires_after_secs": 1}, a_failure(), a_history(3))

    assert decision == Fail(FailReason.EXHAUSTED)


def test_at_the_end_of_time_a_retry_is_still_a_moment() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    raw = {"strategy": "custom", "schedule": ["365d"], "expires_after_secs": 1e300}

    decision = judge(raw, a_failure(), a_history(created_at=last), now=last)

    assert decision == Retry(last, 365 * DAY, DelaySource.CUSTOM, True)


def test_a_stored_policy_decides_like_the_one_that_was_submitted() -> None:
    policy = accept({"max_retries": 3, "retry_on": ["5xx"], "expires_after_secs": 100})
    stored = RetryPolicy.from_json(policy.to_json())

    for spent in range(4):
        given = a_history(spent), ANSWER, NOW
        assert decide(stored, *given, Random(spent), LIMITS) == decide(policy, *given, Random(spent), LIMITS)
