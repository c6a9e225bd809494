"""What a retry policy would do, as a timeline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perdure.domain.delays import Spread, deadline_of, moment_after, own_spread, strategy_delay
from perdure.domain.policy import Jitter, RetryLimits, RetryPolicy, Strategy

_MOST_WARNINGS = 20


@dataclass(frozen=True, slots=True)
class PreviewedRetry:
    """One retry; moments are in seconds from the first failure, executions taken to fail at once."""

    attempt: int
    delay_secs: float
    earliest_secs: float
    expected_secs: float
    latest_secs: float

    def to_json(self) -> dict[str, Any]:
        return {
            "attempt": self.attempt,
            "delay_secs": self.delay_secs,
            "earliest_secs": self.earliest_secs,
            "expected_secs": self.expected_secs,
            "latest_secs": self.latest_secs,
        }


@dataclass(frozen=True, slots=True)
class Preview:
    policy: RetryPolicy
    timeline: tuple[PreviewedRetry, ...]
    total_span_secs: float
    """From the first failure to the last retry, jitter left out."""
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "policy": self.policy.to_json(),
            "timeline": [retry.to_json() for retry in self.timeline],
            "total_span_secs": self.total_span_secs,
            "warnings": list(self.warnings),
        }


def preview(policy: RetryPolicy, limits: RetryLimits, now: datetime) -> Preview:
    """The retries of a task that is created now, fails at once, and fails every time."""
    timeline = _draw_timeline(policy, limits) if policy.enabled else ()
    total = _rounded(sum(retry.delay_secs for retry in timeline))
    warnings = [*_warn_of_unused(policy), *_warn_of_expiry(policy, timeline, now)]
    return Preview(policy, timeline, total, tuple(warnings[:_MOST_WARNINGS]))


def _draw_timeline(policy: RetryPolicy, limits: RetryLimits) -> tuple[PreviewedRetry, ...]:
    rows = []
    earliest = expected = latest = 0.0
    mean: float | None = None
    longest: float | None = None
    for retry_count in range(policy.max_retries):
        # With decorrelated jitter the delay before matters: the usual one, or the longest possible.
        usual = own_spread(policy, retry_count, mean, limits)
        widest = own_spread(policy, retry_count, longest, limits)
        mean, longest = usual.mean, widest.latest
        earliest += usual.earliest
        expected += mean
        latest += longest
        rows.append(
            PreviewedRetry(
                attempt=retry_count + 1,
                delay_secs=_rounded(_nominal_delay(policy, retry_count, usual, limits)),
                earliest_secs=_rounded(earliest),
                expected_secs=_rounded(expected),
                latest_secs=_rounded(latest),
            )
        )
    return tuple(rows)


def _nominal_delay(policy: RetryPolicy, retry_count: int, usual: Spread, limits: RetryLimits) -> float:
    if policy.jitter is Jitter.DECORRELATED:
        return usual.mean
    return strategy_delay(policy, retry_count, limits)


def _warn_of_unused(policy: RetryPolicy) -> list[str]:
    """What the policy says without effect."""
    if not policy.enabled:
        return ["enabled is false: nothing is retried"]
    warnings = []
    if policy.delay_secs is not None and policy.strategy is not Strategy.FIXED_DELAY:
        warnings.append(f"delay_secs has no effect with strategy {policy.strategy.value}, only with fixed_delay")
    if policy.schedule is not None:
        if policy.strategy is not Strategy.CUSTOM:
            warnings.append(f"schedule has no effect with strategy {policy.strategy.value}, only with custom")
        elif len(policy.schedule) > policy.max_retries:
            warnings.append(
                f"schedule has {len(policy.schedule)} delays, of which max_retries uses {policy.max_retries}"
            )
    return warnings


def _warn_of_expiry(policy: RetryPolicy, timeline: tuple[PreviewedRetry, ...], now: datetime) -> list[str]:
    deadline = deadline_of(policy, now)
    if deadline is None:
        return []
    field = "expires_at" if deadline == policy.expires_at else "expires_after_secs"
    warnings = []
    for retry in timeline:
        if moment_after(now, retry.expected_secs) > deadline:
            warnings.append(f"attempt {retry.attempt} falls after {field}")
        elif moment_after(now, retry.latest_secs) > deadline:
            warnings.append(f"attempt {retry.attempt} may fall after {field}")
    return warnings


def _rounded(seconds: float) -> float:
    return round(seconds, 6)
