"""From what the engine does to what the metrics count."""

from __future__ import annotations

from collections import Counter

from perdure.domain.states import Status
from perdure.store.changes import Changes
from perdure.store.verbs.end import LOST
from perdure.telemetry.metrics import Metrics

_PLAIN = {
    "timed_out": Metrics.timed_out,
    "blocked_by_concurrency": Metrics.blocked_by_concurrency,
    "unblocked": Metrics.unblocked,
    "failed_by_dependency": Metrics.failed_by_dependency,
    "canceled_dead_end": Metrics.canceled_dead_end,
    "retry_exhausted": Metrics.retry_exhausted,
}


class EngineListener:
    """Counts what the engine tells of its loops and calls."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._in_flight = 0

    def loop_ran(self, loop: str, seconds: float, /) -> None:
        self._metrics.loop_ran(loop, seconds)

    def sent(self, trigger: str, accepted: bool, seconds: float, /) -> None:
        self._metrics.webhook_sent(trigger, "success" if accepted else "failure", seconds)

    def in_flight(self, change: int, /) -> None:
        self._in_flight += change
        self._metrics.webhooks_in_flight(self._in_flight)


def count_changes(metrics: Metrics, changes: Changes) -> None:
    """Count what one committed transaction changed."""
    moves = Counter((moved.source, moved.target) for moved in changes.moved)
    for (source, target), count in moves.items():
        if source is None:
            metrics.task_created(count)
        else:
            metrics.transition(source.value, target.value, count)
            if target is Status.CANCELED:
                metrics.cancelled(count)
    for attempt in changes.attempts:
        seconds = None if attempt.started_at is None else (changes.at - attempt.started_at).total_seconds()
        if attempt.next_retry_at is None:
            outcome = Status.FAILURE.value if attempt.outcome == LOST else attempt.outcome
            metrics.task_finished(attempt.kind, outcome, seconds)
    for kind, seconds in changes.waited:
        metrics.task_waited(kind, seconds)
    for seconds in changes.lateness:
        metrics.retry_lateness(seconds)
    for (name, label), count in changes.counts.items():
        _count(metrics, name, label, count)


def _count(metrics: Metrics, name: str, label: str, count: int) -> None:
    if name in _PLAIN:
        _PLAIN[name](metrics, count)
    elif name == "propagations":
        metrics.propagated(label, count)
    elif name == "webhook_executions":
        trigger, _, outcome = label.partition(" ")
        for _ in range(count):
            metrics.webhook_executed(trigger, outcome)
    elif name == "retries":
        attempt, _, trigger = label.partition(" ")
        metrics.retry_scheduled(int(attempt), trigger, count)
    elif name == "idempotent_skips":
        for _ in range(count):
            metrics.idempotent_skip(label)
    elif name == "idempotent_conflicts":
        for _ in range(count):
            metrics.idempotent_conflict()
