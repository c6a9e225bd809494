"""From what is stored to what is shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import Raw, Struct

from perdure.api.shapes import (
    BatchDetails,
    BatchSummary,
    DagLink,
    DagView,
    ErrorEntry,
    EventEntry,
    FullTask,
    ShortTask,
    StopResult,
)
from perdure.domain.errors import shown_label
from perdure.domain.model import Condition, Task
from perdure.domain.states import ACTIVE, LABELS, Status
from perdure.store.changes import Row
from perdure.store.lookups import Dag, Totals
from perdure.store.verbs.change import Stopped

NULL = Raw(b"null")
Entry = TypeVar("Entry", bound=Struct)


def _raw(text: str | None) -> Raw:
    return NULL if text is None else Raw(text)


def full_task(task: Task, failures: Sequence[Row] = ()) -> FullTask:
    return FullTask(
        task.id,
        task.key,
        task.name,
        task.kind,
        task.namespace,
        shown_label(task.status, task.paused),
        task.timeout,
        task.priority,
        Raw(task.rules),
        _raw(task.metadata),
        _raw(task.payload),
        Raw(task.actions),
        task.created_at,
        task.started_at,
        task.ended_at,
        task.last_updated,
        task.success,
        task.failures,
        task.expected_count,
        task.failure_reason,
        _raw(task.result),
        task.batch_id,
        task.dead_end_barrier,
        _raw(task.retry_policy),
        task.attempt,
        task.retry_count,
        task.next_retry_at,
        task.error_class,
        [_error_entry(row) for row in failures],
        task.locked_by if task.status in ACTIVE else None,
        task.paused,
        task.parked,
    )


def _error_entry(row: Row) -> ErrorEntry:
    return ErrorEntry(
        row["attempt"], row["ended_at"], row["message"], row["error_class"], row["http_status"], row["code"]
    )


def short_task(row: Row) -> ShortTask:
    return ShortTask(
        row["id"],
        row["name"],
        row["kind"],
        shown_label(Status(row["status"]), row["paused"]),
        row["created_at"],
        row["started_at"],
        row["ended_at"],
        row["success"],
        row["failures"],
        row["expected_count"],
        row["batch_id"],
        row["dead_end_barrier"],
        row["priority"],
        row["attempt"],
        row["next_retry_at"],
    )


def batch_details(row: Row, totals: Totals) -> BatchDetails:
    return BatchDetails(
        batch_id=row["id"],
        name=row["name"],
        namespace=row["namespace"],
        total_tasks=totals.tasks,
        status_counts=totals.status_counts,
        total_success=totals.success,
        total_failures=totals.failures,
        total_expected=totals.expected if totals.with_expected == totals.tasks else None,
        kinds=sorted(totals.kinds),
        first_created_at=totals.first_created_at,
        latest_updated_at=totals.latest_updated_at,
        created_at=row["created_at"],
        context=_raw(row["context"]),
        retry=_raw(row["retry_policy"]),
        retry_of=row["retry_of"],
        attempt=row["attempt"],
        retry_state=row["retry_state"],
        next_retry_at=row["next_retry_at"],
    )


def batch_summary(row: Row, totals: Totals) -> BatchSummary:
    return BatchSummary(
        batch_id=row["id"],
        total_tasks=totals.tasks,
        first_created_at=totals.first_created_at,
        latest_updated_at=totals.latest_updated_at,
        status_counts=totals.status_counts,
        kinds=sorted(totals.kinds),
        name=row["name"],
        retry_of=row["retry_of"],
        attempt=row["attempt"],
    )


def stop_result(stopped: Stopped) -> StopResult:
    canceled = stopped.canceled
    return StopResult(
        batch_id=stopped.batch_id,
        canceled_waiting=canceled["waiting"],
        canceled_pending=canceled["pending"],
        canceled_claimed=canceled["claimed"],
        canceled_running=canceled["running"],
        canceled_retry_pending=canceled["retry_pending"],
        canceled_paused=canceled["paused"],
        already_terminal=stopped.already_terminal,
    )


def dag_view(dag: Dag) -> DagView:
    links = [
        DagLink(row["parent_id"], row["child_id"], row["condition"], row["condition"] == Condition.ON_SUCCESS)
        for row in dag.links
    ]
    return DagView([short_task(row) for row in dag.tasks], links)


def event_entry(row: Row) -> EventEntry:
    source = row["from_status"]
    return EventEntry(
        row["seq"],
        row["at"],
        None if source is None else LABELS[source],
        LABELS[row["to_status"]],
        row["attempt"],
        row["reason"],
        row["instance"],
    )


def entries(shape: type[Entry], rows: Iterable[Row]) -> list[Entry]:
    """Rows whose columns are named like the members of `shape`."""
    names = shape.__struct_fields__
    return [shape(*[row[name] for name in names]) for row in rows]
