"""Counts and measures what happens, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from perdure.domain.states import SHOWN
from perdure.telemetry.labels import KindLabels, Labelled, attempt_label

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Seconds. A call takes up to a minute, a task up to days, a statement should take milliseconds.
WEBHOOK_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60)
TASK_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600)
WAIT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 24 * 3600)
LATENESS_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600)
LOOP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
QUERY_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """One method for each thing that can happen. Has its own registry: engines in one process do not mix."""

    def __init__(self, kind_limit: int = 100) -> None:
        self._registry = CollectorRegistry()
        self._kinds = KindLabels(kind_limit)
        self._declare_tasks()
        self._declare_propagation()
        self._declare_retries()
        self._declare_webhooks()
        self._declare_machinery()

    def _declare_tasks(self) -> None:
        self._created = self._counter("tasks_created_total", "Tasks accepted")
        self._completed = self._counters(
            "tasks_completed_total", "Tasks that ended, by how they ended and kind", "outcome", "kind"
        )
        self._cancelled = self._counter("tasks_cancelled_total", "Tasks canceled on request")
        self._timed_out = self._counter("tasks_timed_out_total", "Attempts that gave no sign of life in time")
        self._transitions = self._counters(
            "task_status_transitions_total", "Changes of status", "from_status", "to_status"
        )
        self._by_status = self._gauges("tasks_by_status", "Tasks that are in a status now", "status")
        for status in SHOWN:
            self._by_status.of(status).set(0)
        self._running = self._gauges("running_tasks_by_kind", "Tasks of a kind that are running now", "kind")
        self._duration = self._histograms(
            "task_duration_seconds", "Time from start to end of a task", TASK_BUCKETS, "kind", "outcome"
        )
        self._wait = self._histograms(
            "task_wait_seconds",
            "Time a task that could run waited until it was claimed",
            WAIT_BUCKETS,
            "kind",
        )
        self._blocked = self._counter(
            "tasks_blocked_by_concurrency_total", "Times that a due task was held back by a concurrency rule"
        )

    def _declare_propagation(self) -> None:
        self._propagations = self._counters(
            "dependency_propagations_total", "Endings handed on to the tasks that depend", "parent_outcome"
        )
        self._unblocked = self._counter("tasks_unblocked_total", "Waiting tasks whose last dependency was met")
        self._failed_by_dependency = self._counter(
            "tasks_failed_by_dependency_total", "Tasks that failed because a parent did"
        )
        self._dead_ends = self._counter(
            "tasks_canceled_dead_end_total", "Tasks canceled because nothing waits for them any more"
        )

    def _declare_retries(self) -> None:
        self._retries = self._counters(
            "task_retry_total", "Retries scheduled, by the attempt that failed and why", "attempt", "trigger"
        )
        self._exhausted = self._counter("task_retry_exhausted_total", "Tasks that failed with no retry left")
        self._lateness = self._histogram(
            "task_retry_lateness_seconds", "How long after its time a retry became due", LATENESS_BUCKETS
        )

    def _declare_webhooks(self) -> None:
        self._executions = self._counters(
            "webhook_executions_total",
            "Webhooks that came to an end, all sends together",
            "trigger",
            "outcome",
        )
        self._sends = self._counters("webhook_attempts_total", "Webhook requests sent", "trigger", "outcome")
        self._webhook_duration = self._histograms(
            "webhook_duration_seconds",
            "Time from sending a webhook to its answer",
            WEBHOOK_BUCKETS,
            "trigger",
        )
        self._skips = self._counters(
            "webhook_idempotent_skips_total", "Webhooks not sent because they had succeeded before", "trigger"
        )
        self._conflicts = self._counter(
            "webhook_idempotent_conflicts_total",
            "Webhooks left alone because another instance was sending them",
        )
        self._in_flight = Gauge("webhooks_in_flight", "Webhook requests under way", registry=self._registry)

    def _declare_machinery(self) -> None:
        self._iterations = self._counters("worker_loop_iterations_total", "Rounds of a background loop", "loop")
        self._loop_duration = self._histograms(
            "worker_loop_duration_seconds",
            "Time that a round of a background loop took",
            LOOP_BUCKETS,
            "loop",
        )
        self._query_duration = self._histograms(
            "db_query_duration_seconds", "Time that a database operation took", QUERY_BUCKETS, "query"
        )

    def task_created(self, count: int = 1) -> None:
        self._created.inc(count)

    def transition(self, from_status: str, to_status: str, count: int = 1) -> None:
        self._transitions.of(from_status, to_status).inc(count)

    def task_waited(self, kind: str, seconds: float) -> None:
        """A task was claimed, this long after it could have been."""
        self._wait.of(self._kinds.label(kind)).observe(max(0.0, seconds))

    def task_finished(self, kind: str, outcome: str, seconds: float | None) -> None:
        """A task ended; `seconds` since its start, None if it never started."""
        label = self._kinds.label(kind)
        self._completed.of(outcome, label).inc()
        if seconds is not None:
            self._duration.of(label, outcome).observe(max(0.0, seconds))

    def timed_out(self, count: int = 1) -> None:
        self._timed_out.inc(count)

    def cancelled(self, count: int = 1) -> None:
        self._cancelled.inc(count)

    def blocked_by_concurrency(self, count: int = 1) -> None:
        self._blocked.inc(count)

    def propagated(self, parent_outcome: str, count: int = 1) -> None:
        self._propagations.of(parent_outcome).inc(count)

    def unblocked(self, count: int = 1) -> None:
        self._unblocked.inc(count)

    def failed_by_dependency(self, count: int = 1) -> None:
        self._failed_by_dependency.inc(count)

    def canceled_dead_end(self, count: int = 1) -> None:
        self._dead_ends.inc(count)

    def retry_scheduled(self, attempt: int, trigger: str, count: int = 1) -> None:
        """`attempt` failed by `trigger`: timeout, webhook_failure, explicit or worker_lost."""
        self._retries.of(attempt_label(attempt), trigger).inc(count)

    def retry_exhausted(self, count: int = 1) -> None:
        self._exhausted.inc(count)

    def retry_lateness(self, seconds: float) -> None:
        self._lateness.observe(max(0.0, seconds))

    def webhook_sent(self, trigger: str, outcome: str, seconds: float) -> None:
        """One request was sent and answered, or given up."""
        self._sends.of(trigger, outcome).inc()
        self._webhook_duration.of(trigger).observe(max(0.0, seconds))

    def webhook_executed(self, trigger: str, outcome: str) -> None:
        """A webhook came to its end: it was accepted, or will not be sent again by itself."""
        self._executions.of(trigger, outcome).inc()

    def idempotent_skip(self, trigger: str) -> None:
        self._skips.of(trigger).inc()

    def idempotent_conflict(self) -> None:
        self._conflicts.inc()

    def webhooks_in_flight(self, count: int) -> None:
        self._in_flight.set(count)

    def loop_ran(self, loop: str, seconds: float) -> None:
        self._iterations.of(loop).inc()
        self._loop_duration.of(loop).observe(seconds)

    def query_ran(self, query: str, seconds: float) -> None:
        self._query_duration.of(query).observe(seconds)

    def set_tasks_by_status(self, counts: Mapping[str, int]) -> None:
        """How many tasks are in each status now; a status that is not named has none."""
        for status in SHOWN:
            self._by_status.of(status).set(counts.get(status, 0))

    def set_running_by_kind(self, counts: Mapping[str, int]) -> None:
        """How many tasks of each kind are running now; a kind that is not named has none."""
        totals: dict[str, int] = {}
        for kind, count in counts.items():
            label = self._kinds.label(kind)
            totals[label] = totals.get(label, 0) + count
        for label in totals:
            self._running.of(label)
        for (label,), gauge in self._running.series().items():
            gauge.set(totals.get(label, 0))

    def render(self) -> tuple[bytes, str]:
        """Everything in Prometheus' text format, and its content type."""
        return generate_latest(_WithoutCreationTimes(self._registry)), CONTENT_TYPE

    def _counter(self, name: str, help_text: str) -> Counter:
        return Counter(name, help_text, registry=self._registry)

    def _counters(self, name: str, help_text: str, *labels: str) -> Labelled[Counter]:
        return Labelled(Counter(name, help_text, labels, registry=self._registry))

    def _gauges(self, name: str, help_text: str, *labels: str) -> Labelled[Gauge]:
        return Labelled(Gauge(name, help_text, labels, registry=self._registry))

    def _histogram(self, name: str, help_text: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(name, help_text, buckets=buckets, registry=self._registry)

    def _histograms(self, name: str, help_text: str, buckets: Sequence[float], *labels: str) -> Labelled[Histogram]:
        return Labelled(Histogram(name, help_text, labels, buckets=buckets, registry=self._registry))


class _WithoutCreationTimes(Collector):
    """Leaves out the `_created` series, which the library adds to every counter and histogram."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            created = metric.name + "_created"
            metric.samples = [sample for sample in metric.samples if sample.name != created]
            yield metric
