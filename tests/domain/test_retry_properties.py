"""What holds for every policy that is accepted, whatever happens to its task."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.delays import own_spread, strategy_delay
from perdure.domain.model import ErrorClass, Failure, FailureTrigger
from perdure.domain.policy import Jitter, RetryPolicy, Strategy
from perdure.domain.retry import Fail, History, Retry, decide
from tests.domain.policies import (
    DAY,
    LIMITS,
    NOW,
    a_failure,
    a_history,
    failures,
    histories,
    moments,
    policies,
)

ATTEMPTS = st.one_of(st.integers(0, 20), st.integers(0, 10**6))
SEEDS = st.randoms(use_true_random=False)


@given(policies(), histories(), failures(), moments(), SEEDS)
def test_a_decision_is_always_made_and_its_moment_is_sound(
    policy: RetryPolicy, history: History, failure: Failure, now: datetime, rng: Random
) -> None:
    decision = decide(policy, history, failure, now, rng, LIMITS)

    if isinstance(decision, Fail):
        return
    assert math.isfinite(decision.delay_secs)
    assert 0 <= decision.delay_secs <= (3600 if policy.strategy is not Strategy.CUSTOM else 365 * DAY)
    assert now <= decision.at
    assert decision.at.tzinfo is UTC
    if policy.expires_at is not None:
        assert decision.at <= policy.expires_at


@given(policies(), ATTEMPTS)
def test_delays_are_finite_and_within_their_cap_for_any_attempt(policy: RetryPolicy, retry_count: int) -> None:
    delay = strategy_delay(policy, retry_count, LIMITS)

    assert math.isfinite(delay)
    assert delay >= 0
    if policy.strategy is Strategy.EXPONENTIAL_BACKOFF:
        assert policy.initial_delay_secs <= delay <= policy.max_delay_secs


@given(policies().filter(lambda policy: policy.strategy is Strategy.EXPONENTIAL_BACKOFF), ATTEMPTS)
def test_exponential_delays_never_shrink(policy: RetryPolicy, retry_count: int) -> None:
    delays = [strategy_delay(policy, retry_count + more, LIMITS) for more in range(5)]

    assert delays == sorted(delays)


@given(policies(), ATTEMPTS, st.one_of(st.none(), st.floats(0, 1e12)), SEEDS)
def test_jitter_stays_within_its_bounds(
    policy: RetryPolicy, retry_count: int, previous: float | None, rng: Random
) -> None:
    delay = strategy_delay(policy, retry_count, LIMITS)
    spread = own_spread(policy, retry_count, previous, LIMITS)

    drawn = spread.draw(rng)

    assert spread.earliest <= drawn <= spread.latest
    assert spread.earliest <= spread.mean * (1 + 1e-12)
    assert spread.mean <= spread.latest * (1 + 1e-12)
    if policy.jitter is Jitter.NONE:
        assert drawn == delay
    elif policy.jitter is Jitter.PROPORTIONAL:
        assert delay * (1 - policy.jitter_ratio) <= drawn <= delay * (1 + policy.jitter_ratio)
    elif policy.jitter is Jitter.FULL:
        assert 0 <= drawn <= delay
    elif policy.jitter is Jitter.EQUAL:
        assert delay / 2 <= drawn <= delay


@given(
    policies().filter(lambda policy: policy.enabled),
    st.lists(failures(), min_size=1, max_size=40),
    SEEDS,
)
def test_the_budget_is_never_exceeded_and_free_retries_are_bounded(
    policy: RetryPolicy, pattern: list[Failure], rng: Random
) -> None:
    """A task that fails again and again, by any pattern, comes to an end."""
    retry_count = free_waits = losses = attempt = 0
    now, previous = NOW, None
    most = policy.max_retries + LIMITS.max_free_waits + LIMITS.max_worker_losses
    while True:
        failure = pattern[attempt % len(pattern)]
        history = History(
            attempt=attempt,
            retry_count=retry_count,
            created_at=NOW,
            free_waits=free_waits,
            worker_losses=losses,
            previous_delay_secs=previous,
        )
        decision = decide(policy, history, failure, now, rng, LIMITS)
        if isinstance(decision, Fail):
            break
        attempt += 1
        assert attempt <= most
        now, previous = decision.at, decision.delay_secs
        if decision.charged:
            retry_count += 1
        elif failure.error_class is ErrorClass.RATE_LIMITED and failure.retry_after_secs is not None:
            free_waits += 1
        if failure.trigger is FailureTrigger.WORKER_LOST:
            losses += 1
    assert retry_count <= policy.max_retries
    assert retry_count <= attempt
    assert free_waits <= LIMITS.max_free_waits


@given(policies(), st.floats(0, 1e15), ATTEMPTS, SEEDS)
def test_a_requested_wait_is_never_cut_short_but_by_the_limit(
    policy: RetryPolicy, requested: float, retry_count: int, rng: Random
) -> None:
    failure = a_failure(error_class=ErrorClass.RATE_LIMITED, retry_after=requested)

    decision = decide(policy, a_history(retry_count), failure, NOW, rng, LIMITS)

    if isinstance(decision, Retry):
        assert decision.delay_secs >= min(requested, LIMITS.retry_after_limit)
        assert decision.delay_secs >= strategy_delay(policy, retry_count, LIMITS)
        assert decision.at - NOW >= timedelta(seconds=min(requested, LIMITS.retry_after_limit))
        assert not decision.charged
