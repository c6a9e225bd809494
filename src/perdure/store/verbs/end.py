"""Endings, and what follows from them in the same transaction: history, webhooks, the rest of the DAG."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perdure.domain.errors import NotFound, NotRunning, PerdureError, StaleAttempt, shown_label
from perdure.domain.keys import Trigger
from perdure.domain.model import Failure, FailureTrigger
from perdure.domain.retry import Retry
from perdure.domain.states import ACTIVE, Status
from perdure.store.actions import deliveries_for
from perdure.store.changes import AttemptEnded, Moved, Row
from perdure.store.interface import Session
from perdure.store.verbs.propagate import propagate

LOST = "lost"
_TRIGGERS = {Status.SUCCESS: Trigger.SUCCESS, Status.FAILURE: Trigger.FAILURE}


class Succeed(NamedTuple):
    """A success reported for a task; `attempt` None means the current one."""

    task_id: str
    attempt: int | None
    result: str | None = None
    linked: bool = True
    """False if the task is known to stand alone: then there is no DAG to lock."""


@dataclass(frozen=True, slots=True)
class Cancel:
    task_id: str
    reason: str


async def succeed(session: Session, items: Sequence[Succeed]) -> list[Row | PerdureError]:
    """End tasks well; whoever comes too late is told what the task is instead."""
    first = _first_by_task(items)
    await session.fetch("lock_batches", [(id,) for id, index in first.items() if items[index].linked])
    rows = await session.fetch(
        "succeed", [(id, items[index].attempt, items[index].result) for id, index in first.items()]
    )
    won = {row["id"]: row for row in rows}
    await finish(session, rows)
    current = await _read_current(session, [id for id in first if id not in won])
    return [
        won[item.task_id]
        if item.task_id in won and first[item.task_id] == index
        else refusal(item.task_id, item.attempt, won.get(item.task_id) or current.get(item.task_id))
        for index, item in enumerate(items)
    ]


async def cancel(session: Session, items: Sequence[Cancel]) -> list[Row | PerdureError]:
    """Cancel live tasks for good."""
    first = _first_by_task(items)
    await session.fetch("lock_batches", [(id,) for id in first])
    rows = await session.fetch("cancel", [(id, items[index].reason, None) for id, index in first.items()])
    won = {row["id"]: row for row in rows}
    await finish(session, rows)
    current = await _read_current(session, [id for id in first if id not in won])
    return [
        won[item.task_id]
        if item.task_id in won and first[item.task_id] == index
        else already_ended(item.task_id, won.get(item.task_id) or current.get(item.task_id))
        for index, item in enumerate(items)
    ]


def _first_by_task(items: Sequence[Succeed | Cancel]) -> dict[str, int]:
    """Which item speaks for its task: the one that came first. In id order, as rows are locked."""
    first: dict[str, int] = {}
    for index, item in enumerate(items):
        first.setdefault(item.task_id, index)
    return dict(sorted(first.items()))


async def _read_current(session: Session, ids: Sequence[str]) -> dict[str, Row]:
    """What tasks are now, for those who came too late."""
    return {row["id"]: row for row in await session.fetch("lock_tasks", [(id,) for id in ids])}


async def finish(session: Session, rows: Sequence[Row], failures: dict[str, Failure] | None = None) -> None:
    """Everything that follows from the endings of `rows`, down and up the DAG, until nothing more ends."""
    note_ended(session, rows, failures or {})
    await propagate(session, [row for row in rows if row["linked"]], note_ended)


def note_ended(session: Session, rows: Sequence[Row], failures: dict[str, Failure]) -> None:
    """Write down endings: the move, the end of the attempt if one was under way, and the webhooks to send."""
    changes = session.changes
    for row in rows:
        source, target = Status(row["from_status"]), Status(row["status"])
        attempt = row["attempt"]
        changes.moved.append(
            Moved(row["id"], row["batch_id"], row["kind"], source, target, attempt, row["failure_reason"])
        )
        failure = failures.get(row["id"])
        if source in ACTIVE:
            changes.attempts.append(attempt_of(row, attempt, target.value, failure))
            if target is Status.SUCCESS and attempt > 0:
                shown = {"task": row["id"], "name": row["name"], "attempt": attempt}
                changes.note(logging.INFO, "a retry succeeded", shown.copy)
            if target is Status.CANCELED:
                changes.deliveries.extend(deliveries_for(row, Trigger.CANCEL, attempt))
        if target in _TRIGGERS:
            changes.deliveries.extend(deliveries_for(row, _TRIGGERS[target], attempt))


def attempt_of(
    row: Row, attempt: int, outcome: str, failure: Failure | None, retry: Retry | None = None
) -> AttemptEnded:
    """The history row of an attempt that is over; one whose worker is gone is lost, whatever becomes of the task."""
    if failure is not None and failure.trigger is FailureTrigger.WORKER_LOST:
        outcome = LOST
    return AttemptEnded(
        row["id"],
        attempt,
        row["locked_by"],
        row["started_at"],
        outcome,
        row["kind"],
        failure.trigger if failure else None,
        failure.error_class if failure else None,
        failure.http_status if failure else None,
        failure.code if failure else None,
        failure.message if failure else row["failure_reason"],
        *((retry.delay_secs, retry.source, retry.charged, retry.at) if retry else ()),
    )


def refusal(task_id: str, attempt: int | None, row: Row | None) -> PerdureError:
    """Why a report about a task is not taken."""
    if row is None:
        return NotFound("task", task_id)
    label = shown_label(Status(row["status"]), row["paused"])
    if attempt is not None and attempt != row["attempt"]:
        return StaleAttempt(
            f"Attempt {attempt} is over; the task is {label} in attempt {row['attempt']}.",
            label,
            row["attempt"],
        )
    return NotRunning(f"The task is {label}, not running; nothing was changed.", label, row["attempt"])


def already_ended(task_id: str, row: Row | None) -> PerdureError:
    if row is None:
        return NotFound("task", task_id)
    label = shown_label(Status(row["status"]), row["paused"])
    return NotRunning(f"The task has already ended: {label}.", label, row["attempt"])
