"""What Prometheus reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from perdure.telemetry.metrics import Metrics

#: Every metric that there is: its labels, and something that makes it show.
METRICS: dict[str, tuple[set[str], Callable[[Metrics], None]]] = {
    "tasks_created_total": (set(), lambda metrics: metrics.task_created(3)),
    "tasks_completed_total": (
        {"outcome", "kind"},
        lambda metrics: metrics.task_finished("etl", "success", 1),
    ),
    "tasks_cancelled_total": (set(), lambda metrics: metrics.cancelled()),
    "tasks_timed_out_total": (set(), lambda metrics: metrics.timed_out()),
    "task_status_transitions_total": (
        {"from_status", "to_status"},
        lambda metrics: metrics.transition("pending", "claimed", 2),
    ),
    "tasks_by_status": ({"status"}, lambda metrics: metrics.set_tasks_by_status({"running": 2})),
    "running_tasks_by_kind": ({"kind"}, lambda metrics: metrics.set_running_by_kind({"etl": 1})),
    "dependency_propagations_total": ({"parent_outcome"}, lambda metrics: metrics.propagated("success", 2)),
    "tasks_unblocked_total": (set(), lambda metrics: metrics.unblocked()),
    "tasks_failed_by_dependency_total": (set(), lambda metrics: metrics.failed_by_dependency()),
    "tasks_canceled_dead_end_total": (set(), lambda metrics: metrics.canceled_dead_end()),
    "task_retry_total": ({"attempt", "trigger"}, lambda metrics: metrics.retry_scheduled(1, "timeout")),
    "task_retry_exhausted_total": (set(), lambda metrics: metrics.retry_exhausted()),
    "task_retry_lateness_seconds": (set(), lambda metrics: metrics.retry_lateness(0.1)),
    "webhook_executions_total": (
        {"trigger", "outcome"},
        lambda metrics: metrics.webhook_executed("start", "success"),
    ),
    "webhook_attempts_total": (
        {"trigger", "outcome"},
        lambda metrics: metrics.webhook_sent("start", "failure", 0.2),
    ),
    "webhook_duration_seconds": (
        {"trigger"},
        lambda metrics: metrics.webhook_sent("start", "success", 0.2),
    ),
    "webhook_idempotent_skips_total": ({"trigger"}, lambda metrics: metrics.idempotent_skip("start")),
    "webhook_idempotent_conflicts_total": (set(), lambda metrics: metrics.idempotent_conflict()),
    "webhooks_in_flight": (set(), lambda metrics: metrics.webhooks_in_flight(5)),
    "tasks_blocked_by_concurrency_total": (set(), lambda metrics: metrics.blocked_by_concurrency()),
    "task_duration_seconds": (
        {"kind", "outcome"},
        lambda metrics: metrics.task_finished("etl", "failure", 5),
    ),
    "task_wait_seconds": ({"kind"}, lambda metrics: metrics.task_waited("etl", 0.5)),
    "worker_loop_iterations_total": ({"loop"}, lambda metrics: metrics.loop_ran("start", 0.01)),
    "worker_loop_duration_seconds": ({"loop"}, lambda metrics: metrics.loop_ran("start", 0.01)),
    "db_query_duration_seconds": ({"query"}, lambda metrics: metrics.query_ran("claim_due", 0.01)),
}


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every series as Prometheus would read it: by name and labels."""
    content, _ = metrics.render()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(content.decode())
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics)[name, frozenset(labels.items())]


def shown(metrics: Metrics, name: str) -> dict[str, float]:
    """All series of a metric with one label, by its value."""
    return {
        dict(labels).popitem()[1]: number
        for (sample_name, labels), number in samples(metrics).items()
        if sample_name == name
    }


@pytest.mark.parametrize("name", METRICS)
def test_each_metric_shows_under_its_name_with_its_labels(name: str) -> None:
    labels, happen = METRICS[name]
    metrics = Metrics()
    happen(metrics)

    is_histogram = name.endswith("_seconds")
    seen = [
        {label for label, _ in sample_labels}
        for sample_name, sample_labels in samples(metrics)
        if sample_name == (f"{name}_count" if is_histogram else name)
    ]
    assert seen
    assert all(found == labels for found in seen)


def test_there_are_no_other_metrics() -> None:
    content, _ = Metrics().render()
    declared = [line.split()[2] for line in content.decode().splitlines() if line.startswith("# TYPE")]
    assert sorted(declared) == sorted(METRICS)


def test_counts_add_up() -> None:
    metrics = Metrics()
    metrics.task_created(3)
    metrics.task_created()
    metrics.transition("pending", "claimed", 2)
    metrics.transition("pending", "claimed")
    metrics.transition("claimed", "running")

    assert value(metrics, "tasks_created_total") == 4
    assert value(metrics, "task_status_transitions_total", from_status="pending", to_status="claimed") == 3
    assert value(metrics, "task_status_transitions_total", from_status="claimed", to_status="running") == 1


def test_all_ten_statuses_show_from_the_start() -> None:
    assert shown(Metrics(), "tasks_by_status") == dict.fromkeys(
        [
            "waiting",
            "pending",
            "claimed",
            "running",
            "retry_pending",
            "paused",
            "success",
            "failure",
            "canceled",
            "skipped",
        ],
        0,
    )


def test_a_status_that_is_not_named_has_no_tasks() -> None:
    metrics = Metrics()
    metrics.set_tasks_by_status({"running": 2, "paused": 1})
    metrics.set_tasks_by_status({"success": 3})

    assert {status: count for status, count in shown(metrics, "tasks_by_status").items() if count} == {"success": 3}


def test_a_kind_that_stopped_running_shows_none() -> None:
    metrics = Metrics()
    metrics.set_running_by_kind({"etl": 2, "mail": 1})
    metrics.set_running_by_kind({"mail": 4})

    assert shown(metrics, "running_tasks_by_kind") == {"etl": 0, "mail": 4}


def test_kinds_beyond_the_limit_are_counted_together() -> None:
    metrics = Metrics()
    for number in range(150):
        metrics.task_waited(f"kind-{number}", 1)
    metrics.task_waited("kind-7", 1)
    metrics.set_running_by_kind({"kind-0": 1, "kind-120": 2, "kind-121": 3, "new": 4})

    waits = shown(metrics, "task_wait_seconds_count")
    assert len(waits) == 101
    assert waits["kind-7"] == 2
    assert waits["other"] == 50
    assert shown(metrics, "running_tasks_by_kind") == {"kind-0": 1, "other": 9}


@pytest.mark.parametrize(("attempt", "label"), [(1, "1"), (10, "10"), (11, "10+"), (5000, "10+")])
def test_high_attempts_are_counted_together(attempt: int, label: str) -> None:
    metrics = Metrics()
    metrics.retry_scheduled(attempt, "timeout")

    assert value(metrics, "task_retry_total", attempt=label, trigger="timeout") == 1


def test_a_task_that_never_started_has_no_duration() -> None:
    metrics = Metrics()
    metrics.task_finished("etl", "canceled", None)

    assert value(metrics, "tasks_completed_total", kind="etl", outcome="canceled") == 1
    assert not shown(metrics, "task_duration_seconds_count")


def test_times_are_never_negative() -> None:
    metrics = Metrics()
    metrics.retry_lateness(-3)

    assert value(metrics, "task_retry_lateness_seconds_sum") == 0
    assert value(metrics, "task_retry_lateness_seconds_count") == 1


def test_engines_in_one_process_do_not_mix() -> None:
    first, second = Metrics(), Metrics()
    first.task_created(5)

    assert value(second, "tasks_created_total") == 0


def test_kinds_are_escaped() -> None:
    metrics = Metrics()
    kind = 'a"b\\c\nd{}ü'
    metrics.task_waited(kind, 1)

    assert value(metrics, "task_wait_seconds_count", kind=kind) == 1


def test_the_format_is_prometheus_text() -> None:
    content, content_type = Metrics().render()
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert content.startswith(b"# HELP ")
