"""How long a retry waits: the one calculation, used to decide and to preview.

For any policy and any number of retries it is finite, capped and free of overflow.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import NamedTuple, assert_never

from perdure.domain.policy import Jitter, RetryLimits, RetryPolicy, Strategy

_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


class Spread(NamedTuple):
    """Where a delay falls: evenly between `low` and `high`, but never beyond `ceiling`."""

    low: float
    high: float
    ceiling: float

    @property
    def earliest(self) -> float:
        return min(self.low, self.ceiling)

    @property
    def latest(self) -> float:
        return min(self.high, self.ceiling)

    @property
    def mean(self) -> float:
        """The average of what `draw` gives."""
        if self.high <= self.low or self.low >= self.ceiling:
            return self.earliest
        if self.high <= self.ceiling:
            return self.low + (self.high - self.low) / 2
        share_below = (self.ceiling - self.low) / (self.high - self.low)
        return share_below * (self.low + self.ceiling) / 2 + (1 - share_below) * self.ceiling

    def draw(self, rng: Random) -> float:
        if self.high <= self.low:
            return self.earliest
        return max(self.earliest, min(rng.uniform(self.low, self.high), self.latest))


def strategy_delay(policy: RetryPolicy, retry_count: int, limits: RetryLimits) -> float:
    """The delay that the strategy gives after `retry_count` charged retries: capped, without jitter."""
    ceiling = _ceiling(policy, limits)
    match policy.strategy:
        case Strategy.IMMEDIATE:
            return 0.0
        case Strategy.FIXED_DELAY:
            return min(policy.delay_secs or 0.0, ceiling)
        case Strategy.CUSTOM:
            schedule = policy.schedule or (0.0,)
            return min(schedule[min(retry_count, len(schedule) - 1)], ceiling)
        case Strategy.EXPONENTIAL_BACKOFF:
            first = policy.first_delays or (policy.initial_delay_secs,)
            listed = min(retry_count, len(first) - 1)
            return _grow(first[listed], policy.backoff_multiplier, retry_count - listed, ceiling)
        case _:
            assert_never(policy.strategy)


def own_spread(policy: RetryPolicy, retry_count: int, previous_delay_secs: float | None, limits: RetryLimits) -> Spread:
    """Where the policy's own delay falls, jitter included."""
    ceiling = _ceiling(policy, limits)
    delay = strategy_delay(policy, retry_count, limits)
    match policy.jitter:
        case Jitter.NONE:
            return Spread(delay, delay, ceiling)
        case Jitter.PROPORTIONAL:
            return Spread(delay * (1 - policy.jitter_ratio), delay * (1 + policy.jitter_ratio), ceiling)
        case Jitter.FULL:
            return Spread(0.0, delay, ceiling)
        case Jitter.EQUAL:
            return Spread(delay / 2, delay, ceiling)
        case Jitter.DECORRELATED:
            grows = policy.strategy is Strategy.EXPONENTIAL_BACKOFF
            low = min(policy.initial_delay_secs if grows else delay, ceiling)
            previous = low if previous_delay_secs is None else min(previous_delay_secs, ceiling)
            return Spread(low, max(low, 3 * previous), ceiling)
        case _:
            assert_never(policy.jitter)


def server_spread(policy: RetryPolicy, retry_count: int, requested_secs: float, limits: RetryLimits) -> Spread:
    """Where a wait falls that the other side asked for: never before the policy's own delay."""
    own = strategy_delay(policy, retry_count, limits)
    ceiling = limits.retry_after_limit
    if policy.strategy is Strategy.CUSTOM:
        # A schedule says its delays outright: no limit for servers makes them shorter.
        ceiling = max(ceiling, own)
    wait = min(max(requested_secs, own), ceiling)
    most = wait if policy.jitter is Jitter.NONE else wait * (1 + policy.jitter_ratio)
    return Spread(wait, most, ceiling)


def moment_after(moment: datetime, seconds: float) -> datetime:
    """`seconds` after `moment`, or the last moment that there is."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST_MOMENT


def deadline_of(policy: RetryPolicy, created_at: datetime) -> datetime | None:
    """The moment after which no retry of a task starts; the earlier one if the policy names two."""
    moments = [] if policy.expires_at is None else [policy.expires_at]
    if policy.expires_after_secs is not None:
        moments.append(moment_after(created_at, policy.expires_after_secs))
    return min(moments, default=None)


def _ceiling(policy: RetryPolicy, limits: RetryLimits) -> float:
    """What no delay of the policy exceeds; limits that were lowered after it was accepted hold as well."""
    match policy.strategy:
        case Strategy.CUSTOM:
            return limits.longest_scheduled_secs
        case Strategy.EXPONENTIAL_BACKOFF:
            return min(policy.max_delay_secs, limits.max_delay_limit)
        case Strategy.IMMEDIATE | Strategy.FIXED_DELAY:
            return limits.max_delay_limit
        case _:
            assert_never(policy.strategy)


def _grow(delay: float, factor: float, times: int, ceiling: float) -> float:
    if delay <= 0:
        return 0.0
    try:
        return min(delay * factor**times, ceiling)
    except OverflowError:
        return ceiling
