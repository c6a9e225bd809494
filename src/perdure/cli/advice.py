"""What a task waits for and what a person can do about it. Plain functions of what is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from perdure.cli.show import clean, distance, moment
from perdure.client import Attempt, Delivery, Pause, Task
from perdure.domain.states import LABELS, PAUSED_LABEL, Status

WAITING, PENDING, CLAIMED, RUNNING, RETRY_PENDING, FAILURE, CANCELED, SKIPPED = (
    LABELS[status]
    for status in (
        Status.WAITING,
        Status.PENDING,
        Status.CLAIMED,
        Status.RUNNING,
        Status.RETRY_PENDING,
        Status.FAILURE,
        Status.CANCELED,
        Status.SKIPPED,
    )
)


@dataclass(frozen=True, slots=True)
class Parent:
    """A task that another one waits for, or waited for."""

    id: str
    name: str
    status: str
    condition: str


@dataclass(frozen=True, slots=True)
class Known:
    """Everything that was asked about a task. `parents` and `pauses` only where they explain its status."""

    task: Task
    attempts: Sequence[Attempt]
    deliveries: Sequence[Delivery]
    parents: Sequence[Parent]
    pauses: Sequence[Pause]
    now: datetime
    flags: str
    """What commands need to reach the same place."""

    def command(self, verb: str, id: str | None = None) -> str:
        return f"perdure task {verb} {self.task.id if id is None else id}{self.flags}"


def explain(known: Known) -> str:
    """In one sentence: why the task is where it is."""
    task = known.task
    if task.status == PAUSED_LABEL:
        if task.parked:
            return "its retries are spent; it is parked for a person"
        return "paused by hand"
    if task.status == WAITING:
        return f"waits for {_list(known.parents)}" if known.parents else "waits for its parents"
    if task.status == PENDING:
        return _explain_pending(known)
    if task.status in (CLAIMED, RUNNING):
        return _explain_active(task, known.now)
    if task.status == RETRY_PENDING:
        return f"failed, and is tried again {_when(task.next_retry_at, known.now)}"
    if task.status == FAILURE:
        return _explain_failure(task)
    if task.status == SKIPPED:
        return "the condition that it waited for can no longer hold"
    return "stopped before its end" if task.status == CANCELED else "done"


def _explain_pending(known: Known) -> str:
    if known.pauses:
        held = " and ".join(f"the {pause.scope} {clean(pause.name)!r}" for pause in known.pauses)
        return f"held back: {held} {'is' if len(known.pauses) == 1 else 'are'} paused"
    rules = ", a rule or limit lets it," if known.task.rules else ""
    return f"starts as soon as its time has come,{rules} and an instance or a worker is free"


def _explain_active(task: Task, now: datetime) -> str:
    by = "" if task.locked_by is None else f" by {clean(task.locked_by)}"
    if task.status == CLAIMED:
        return f"claimed{by}; its start is under way"
    limit = task.last_updated + timedelta(seconds=task.timeout)
    return f"running{by}; without a sign of life it times out {_when(limit, now)}"


def _explain_failure(task: Task) -> str:
    if not task.attempt and task.started_at is None:
        return "failed without having run"
    if task.retry is None:
        return "failed; it has no retry policy"
    if task.error_class == "final":
        return "failed for good: the failure is final, so it was not retried"
    return f"failed; {task.retry_count} of {task.retry['max_retries']} retries were used"


def _when(at: datetime | None, now: datetime) -> str:
    return "soon" if at is None else f"at {moment(at)}, {distance(at, now)}"


def _list(parents: Sequence[Parent], most: int = 5) -> str:
    shown = [f"{clean(parent.name)} ({parent.status})" for parent in parents[:most]]
    rest = len(parents) - most
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


def next_steps(known: Known) -> list[str]:
    """What a person can do now, each with its command; empty when there is nothing to do."""
    return [*_steps_of_task(known), *_steps_of_deliveries(known)]


def _steps_of_task(known: Known) -> list[str]:
    task = known.task
    retry = f"try it again, with a fresh budget: {known.command('retry')}"
    cancel = f"give it up: {known.command('cancel')}"
    if task.status == PAUSED_LABEL:
        if task.parked:
            return [retry, cancel]
        return [f"let it go on: {known.command('resume')}", cancel]
    if task.status == WAITING:
        return [f"look at what it waits for: {known.command('show', parent.id)}" for parent in known.parents[:1]]
    if task.status == PENDING:
        return [f"see what is running: perdure task list --status Running{known.flags}", cancel]
    if task.status in (CLAIMED, RUNNING):
        return [cancel]
    if task.status == RETRY_PENDING:
        return [
            f"do not wait: {known.command('retry')}",
            f"hold it back: {known.command('pause')}",
            cancel,
        ]
    if task.status in (FAILURE, CANCELED):
        failed = [parent for parent in known.parents if parent.status in (FAILURE, CANCELED)]
        if failed:
            # Retrying the parent puts this one back too.
            return [
                f"retry {clean(parent.name)}, and this too: {known.command('retry', parent.id)}" for parent in failed
            ]
        return [retry]
    return []


def _steps_of_deliveries(known: Known) -> list[str]:
    given_up = [
        delivery
        for delivery in known.deliveries
        if delivery.status == "failure" and delivery.trigger != "start" and delivery.next_send_at is None
    ]
    return [
        f"the {delivery.trigger} webhook was given up; send it again: {known.command('redrive', delivery.id)}"
        for delivery in given_up
    ]
