"""Whether a failure is retried: the steps of the decision, in their order. Its waits have tests of their own."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from perdure.domain.model import ErrorClass, Failure, FailureTrigger
from perdure.domain.policy import RetryPolicy
from perdure.domain.retry import DelaySource, Fail, FailReason, Retry, decide
from tests.domain.policies import DAY, LIMITS, NOW, a_failure, a_history, accept, asked, judge

FINAL = ErrorClass.FINAL
LOST = a_failure(FailureTrigger.WORKER_LOST)


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
