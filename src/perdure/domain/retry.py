"""How a failure becomes a retry: the only code that decides it and computes its moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from random import Random
from typing import NamedTuple

from perdure.domain.delays import Spread, deadline_of, moment_after, own_spread, server_spread
from perdure.domain.model import ErrorClass, Failure, FailureTrigger
from perdure.domain.policy import OnExhausted, RetryLimits, RetryPolicy, Strategy


class DelaySource(StrEnum):
    """What a delay came from."""

    EXPONENTIAL = "exponential"
    FIXED = "fixed"
    CUSTOM = "custom"
    IMMEDIATE = "immediate"
    SERVER = "server"
    MANUAL = "manual"


class FailReason(StrEnum):
    """Why there is no retry."""

    NO_POLICY = "no_policy"
    FINAL = "final"
    NOT_RETRYABLE = "not_retryable"
    IGNORED = "ignored"
    EXHAUSTED = "exhausted"
    RETRY_DEADLINE = "retry_deadline"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What has become of a task up to the failure that is decided on."""

    attempt: int
    """The execution that failed: 0 for the first."""
    retry_count: int
    """How much of the budget is spent."""
    created_at: datetime
    free_waits: int = 0
    """Waits asked for by the other side that were not charged."""
    worker_losses: int = 0
    """Workers lost before this failure."""
    previous_delay_secs: float | None = None
    """The delay before the execution that failed, if it was a retry."""


class Retry(NamedTuple):
    """Try again at this moment."""

    at: datetime
    delay_secs: float
    source: DelaySource
    charged: bool
    """Whether the retry spends budget."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Do not try again."""

    reason: FailReason
    parked: bool = False
    """The task is not over: it waits for a human (`on_exhausted: pause`)."""


def decide(
    policy: RetryPolicy | None,
    history: History,
    failure: Failure,
    now: datetime,
    rng: Random,
    limits: RetryLimits,
) -> Retry | Fail:
    """Whether and when a failed task is tried again."""
    if policy is None or not policy.enabled:
        return Fail(FailReason.NO_POLICY)
    refusal = _refuse(policy, failure)
    if refusal is not None:
        return Fail(refusal)
    spread, source, charged = _choose_wait(policy, history, failure, limits)
    if charged and history.retry_count >= policy.max_retries:
        return Fail(FailReason.EXHAUSTED, parked=policy.on_exhausted is OnExhausted.PAUSE)
    delay_secs = spread.draw(rng)
    at = moment_after(now, delay_secs)
    deadline = deadline_of(policy, history.created_at)
    if deadline is not None and at > deadline:
        return Fail(FailReason.RETRY_DEADLINE)
    return Retry(at, delay_secs, source, charged)


def _choose_wait(
    policy: RetryPolicy, history: History, failure: Failure, limits: RetryLimits
) -> tuple[Spread, DelaySource, bool]:
    """Where the delay falls, what it comes from, and whether the retry is charged."""
    requested = failure.retry_after_secs
    # Not a number is not at least zero.
    if failure.error_class is ErrorClass.RATE_LIMITED and requested is not None and requested >= 0:
        spread = server_spread(policy, history.retry_count, requested, limits)
        return spread, DelaySource.SERVER, history.free_waits >= limits.max_free_waits
    spread = own_spread(policy, history.retry_count, history.previous_delay_secs, limits)
    lost = failure.trigger is FailureTrigger.WORKER_LOST
    # The task may be what kills its workers, so losses are free only so often.
    charged = not lost or history.worker_losses >= limits.max_worker_losses
    return spread, _SOURCES[policy.strategy], charged


_SOURCES = {
    Strategy.IMMEDIATE: DelaySource.IMMEDIATE,
    Strategy.EXPONENTIAL_BACKOFF: DelaySource.EXPONENTIAL,
    Strategy.FIXED_DELAY: DelaySource.FIXED,
    Strategy.CUSTOM: DelaySource.CUSTOM,
}


class _Match(IntEnum):
    """How closely a list of conditions names a failure."""

    NONE = 0
    TRIGGER = 1
    HTTP_CLASS = 2
    EXACT = 3


def _refuse(policy: RetryPolicy, failure: Failure) -> FailReason | None:
    """Why the failure is of a kind that is not retried, if it is."""
    wanted = _Match.NONE if policy.retry_on is None else _match(policy.retry_on, failure)
    if failure.error_class is ErrorClass.FINAL and wanted is _Match.NONE:
        return FailReason.FINAL
    if policy.retry_on is not None and wanted is _Match.NONE:
        return FailReason.NOT_RETRYABLE
    ignored = _match(policy.ignore, failure)
    if ignored is not _Match.NONE and ignored >= wanted:
        return FailReason.IGNORED
    return None


def _match(conditions: Iterable[str], failure: Failure) -> _Match:
    status = None if failure.http_status is None else str(failure.http_status)
    http_class = None if status is None else f"{status[0]}xx"
    closest = _Match.NONE
    for condition in conditions:
        if condition in (failure.code, status):
            return _Match.EXACT
        if condition == http_class:
            closest = _Match.HTTP_CLASS
        elif condition == failure.trigger and closest is _Match.NONE:
            closest = _Match.TRIGGER
    return closest
