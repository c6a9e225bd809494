"""How rows become things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from perdure.domain.model import Batch, Completion, Executor, Link, Task
from perdure.domain.states import Status
from perdure.store.changes import Row

TASK_COLUMNS = tuple(field.name for field in fields(Task))
#: What a move changes, and what its consequences need to know. A whole task costs twice as much to hand over.
MOVED_COLUMNS = (
    "id",
    "batch_id",
    "name",
    "kind",
    "status",
    "from_status",
    "attempt",
    "retry_count",
    "linked",
    "actions",
    "paused",
    "parked",
    "started_at",
    "ended_at",
    "last_updated",
    "next_retry_at",
    "locked_by",
    "failure_reason",
    "error_class",
    "result",
)
BATCH_COLUMNS = tuple(field.name for field in fields(Batch))
LINK_COLUMNS = tuple(field.name for field in fields(Link))
#: What a listing shows of a task.
SHORT_TASK_COLUMNS = (
    "id",
    "name",
    "kind",
    "status",
    "paused",
    "created_at",
    "started_at",
    "ended_at",
    "success",
    "failures",
    "expected_count",
    "batch_id",
    "dead_end_barrier",
    "priority",
    "attempt",
    "next_retry_at",
)
TIME_COLUMNS = frozenset(
    {
        "at",
        "created_at",
        "started_at",
        "ended_at",
        "last_updated",
        "updated_at",
        "next_retry_at",
        "next_send_at",
        "run_at",
        "times_out_at",
        "lease_until",
        "first_created_at",
        "latest_updated_at",
        "due_at",
        "scheduled_at",
        "retried_at",
        "last_retried_at",
        "expires_at",
        "locked_at",
    }
)
FLAG_COLUMNS = frozenset(
    {"paused", "parked", "delayed", "linked", "dead_end_barrier", "charged", "requires_success", "has_live"}
)


def values_of(thing: Any, columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple([getattr(thing, column) for column in columns])


def task_from(row: Row) -> Task:
    task = Task(*[row[column] for column in TASK_COLUMNS])
    task.status = Status(task.status)
    task.executor = Executor(task.executor)
    task.completion = Completion(task.completion)
    return task
