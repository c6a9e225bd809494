"""Failures: each goes through one decision, which retries the task or ends it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from perdure.domain.checks import REASON_BYTES, clip
from perdure.domain.errors import PerdureError
from perdure.domain.keys import Trigger
from perdure.domain.model import Failure, FailureTrigger
from perdure.domain.retry import Fail, FailReason, Retry
from perdure.domain.states import ACTIVE, Status
from perdure.store.actions import deliveries_for
from perdure.store.changes import Moved, Row
from perdure.store.interface import Session
from perdure.store.verbs.end import attempt_of, finish, refusal

_LAST_WORDS = {
    FailReason.EXHAUSTED: "retries are exhausted; the task failed",
    FailReason.RETRY_DEADLINE: "the next retry would come after the deadline; the task failed",
    FailReason.FINAL: "the error is final; the task failed without a retry",
    FailReason.NOT_RETRYABLE: "the policy does not retry this failure; the task failed",
    FailReason.IGNORED: "the policy ignores this failure; the task failed",
}

Decide = Callable[[Row, Failure, datetime], Retry | Fail]
"""What becomes of a failing task, given its row and the moment."""


class Failed(NamedTuple):
    """A failure of a task; `attempt` None means the current one."""

    task_id: str
    attempt: int | None
    failure: Failure
    linked: bool = True
    """False if the task is known to stand alone: then there is no DAG to lock."""


async def fail(session: Session, items: Sequence[Failed], decide: Decide) -> list[Row | PerdureError]:
    """Retry or end tasks that failed; whoever comes too late is told what the task is instead."""
    ids = sorted({item.task_id for item in items})
    await session.fetch("lock_batches", sorted({(item.task_id,) for item in items if item.linked}))
    rows = {row["id"]: row for row in await session.fetch("lock_failing", [(id,) for id in ids])}
    accepted: dict[str, Failed] = {}
    for item in items:
        row = rows.get(item.task_id)
        if row is not None and row["status"] in ACTIVE and item.attempt in (None, row["attempt"]):
            accepted.setdefault(item.task_id, item)
    settled = await settle_failures(session, [(rows[id], item.failure) for id, item in accepted.items()], decide)
    return [
        settled[item.task_id]
        if accepted.get(item.task_id) is item
        else refusal(item.task_id, item.attempt, settled.get(item.task_id) or rows.get(item.task_id))
        for item in items
    ]


async def settle_failures(session: Session, failing: Sequence[tuple[Row, Failure]], decide: Decide) -> dict[str, Row]:
    """Decide for each locked, active task and carry it out; returns the rows as they are afterwards."""
    retries: list[tuple[Row, Failure, Retry]] = []
    endings: list[tuple[Row, Failure]] = []
    parkings: list[tuple[Row, Failure]] = []
    for row, failure in failing:
        decision = decide(row, failure, session.now)
        _note(session, row, failure, decision)
        if isinstance(decision, Retry):
            retries.append((row, failure, decision))
        else:
            if decision.reason is FailReason.RETRY_DEADLINE:
                failure = replace(failure, message=_with_reason(failure.message, decision.reason))
            (parkings if decision.parked else endings).append((row, failure))
            if decision.reason is FailReason.EXHAUSTED:
                session.changes.count("retry_exhausted")
        if failure.trigger is FailureTrigger.TIMEOUT:
            session.changes.count("timed_out")
            if session.options.cancel_on_timeout:
                session.changes.deliveries.extend(deliveries_for(row, Trigger.CANCEL, row["attempt"]))
    # Before anything ends: an ending may reach those that wait for their retry, and cancel them as dead ends.
    waiting = [*await _schedule(session, retries), *await _park(session, parkings)]
    ended = await session.fetch(
        "fail",
        [(row["id"], row["attempt"], failure.message, failure.error_class) for row, failure in endings],
    )
    await finish(session, ended, {row["id"]: failure for row, failure in endings})
    if ended and waiting:
        waiting = await session.fetch("lock_tasks", sorted((row["id"],) for row in waiting))
    return {row["id"]: row for row in [*waiting, *ended]}


def _with_reason(message: str, reason: FailReason) -> str:
    """The message with the reason behind it, which stays readable however long the message is."""
    suffix = f" ({reason})"
    return clip(message, REASON_BYTES - len(suffix)) + suffix


def _note(session: Session, row: Row, failure: Failure, decision: Retry | Fail) -> None:
    """Tell the operator what happened, to which task, and what happens next."""
    fields = partial(_note_fields, row, failure, decision)
    if isinstance(decision, Retry):
        session.changes.note(logging.INFO, "an attempt failed; the task is retried", fields)
    elif decision.parked:
        session.changes.note(logging.WARNING, "retries are exhausted; the task is parked for a human", fields)
    else:
        session.changes.note(logging.WARNING, _LAST_WORDS.get(decision.reason, "the task failed"), fields)


def _note_fields(row: Row, failure: Failure, decision: Retry | Fail) -> dict[str, Any]:
    fields = {"task": row["id"], "name": row["name"], "attempt": row["attempt"], "trigger": failure.trigger}
    fields |= {"reason": failure.message, "error_class": failure.error_class}
    if isinstance(decision, Retry):
        moment = decision.at.isoformat(timespec="milliseconds")
        fields |= {
            "delay_secs": round(decision.delay_secs, 3),
            "delay_source": decision.source,
            "next_retry_at": moment,
        }
    return fields


async def _park(session: Session, parkings: Sequence[tuple[Row, Failure]]) -> list[Row]:
    """Set tasks aside for a human: nothing propagates, nothing is sent."""
    parked = await session.fetch(
        "park", [(row["id"], row["attempt"], failure.message, failure.error_class) for row, failure in parkings]
    )
    for row, failure in parkings:
        session.changes.attempts.append(attempt_of(row, row["attempt"], "failure", failure))
        moved = (row["id"], row["batch_id"], row["kind"], Status(row["status"]), Status.RETRY_PENDING, row["attempt"])
        session.changes.moved.append(Moved(*moved, f"parked, retries exhausted: {failure.message}"))
    return parked


async def _schedule(session: Session, retries: Sequence[tuple[Row, Failure, Retry]]) -> list[Row]:
    scheduled = await session.fetch(
        "schedule_retry",
        [
            (
                row["id"],
                row["attempt"],
                failure.message,
                failure.error_class,
                retry.at,
                retry.delay_secs,
                int(retry.charged),
                int(not retry.charged and failure.trigger is not FailureTrigger.WORKER_LOST),
                int(failure.trigger is FailureTrigger.WORKER_LOST),
            )
            for row, failure, retry in retries
        ],
    )
    changes = session.changes
    for row, failure, retry in retries:
        attempt = row["attempt"]
        changes.attempts.append(attempt_of(row, attempt, "failure", failure, retry))
        changes.moved.append(
            Moved(
                row["id"],
                row["batch_id"],
                row["kind"],
                Status(row["status"]),
                Status.RETRY_PENDING,
                attempt + 1,
                failure.message,
            )
        )
        changes.count("retries", f"{attempt + 1} {failure.trigger}")
        changes.due(retry.at)
    return scheduled
