"""The one retry decision, bound to what it needs to know: every path that can fail a task comes through here."""

from __future__ import annotations

import random
from datetime import datetime
from functools import lru_cache

import msgspec

from perdure.clock import Clock
from perdure.domain.model import Failure
from perdure.domain.policy import RetryLimits, RetryPolicy
from perdure.domain.retry import Fail, History, Retry, decide
from perdure.store.changes import Row
from perdure.store.verbs.executions import DecideBatch
from perdure.store.verbs.fail import Decide


def decision_maker(limits: RetryLimits, rng: random.Random) -> Decide:
    """The one retry decision, applied to the row of a failing task."""

    def decide_row(row: Row, failure: Failure, now: datetime) -> Retry | Fail:
        policy = row["retry_policy"]
        history = History(
            attempt=row["attempt"],
            retry_count=row["retry_count"],
            free_waits=row["free_waits"],
            worker_losses=row["worker_losses"],
            created_at=row["created_at"],
            previous_delay_secs=row["last_delay_secs"],
        )
        return decide(_read_policy(policy) if policy else None, history, failure, now, rng, limits)

    return decide_row


def batch_decision_maker(limits: RetryLimits, clock: Clock, rng: random.Random) -> DecideBatch:
    """The same decision, applied to the row of a batch that ended with a failure."""

    def decide_row(row: Row, failure: Failure) -> Retry | Fail:
        count = row["retry_count"]
        history = History(attempt=count, retry_count=count, created_at=row["created_at"])
        return decide(_read_policy(row["retry_policy"]), history, failure, clock.now(), rng, limits)

    return decide_row


@lru_cache(maxsize=1024)
def _read_policy(stored: str) -> RetryPolicy:
    """Many tasks share few policies."""
    return RetryPolicy.from_json(msgspec.json.decode(stored))
