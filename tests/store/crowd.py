"""A database in which the statements of the engine must find few rows among many."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from uuid_utils import uuid7

from perdure.domain.drafts import BatchDraft
from perdure.domain.keys import Trigger, idempotency_key
from perdure.domain.model import Task
from perdure.domain.states import Status
from perdure.store.interface import Session
from perdure.store.records import BATCH_COLUMNS, TASK_COLUMNS, values_of
from tests.store.databases import AnyStore
from tests.store.drafts import a_task
from tests.store.scenario import new_intake

TASKS = 100_000
PER_BATCH = 100
LANES = 50
#: How many of a hundred tasks are in which state; the rest has ended well.
SHARES = {
    Status.PENDING: 10,
    Status.CLAIMED: 2,
    Status.RUNNING: 3,
    Status.RETRY_PENDING: 5,
    Status.WAITING: 10,
    Status.FAILURE: 5,
}
_EXTRA = ("lease_until", "times_out_at")
_LEDGER = ("id", "task_id", "trigger", "condition", "action_index", "attempt", "idempotency_key", "status")
_LEDGER_REST = ("attempts", "params", "next_send_at", "created_at", "updated_at")


class Crowd:
    """What was put into the database, and some of it to ask for."""

    def __init__(self, now: datetime) -> None:
        prepared = new_intake().prepare(BatchDraft([a_task("model")]), now)
        self._model, self._batch = prepared.tasks[0], prepared.batch
        self.now = now
        self.batches = [str(uuid7()) for _ in range(TASKS // PER_BATCH)]
        self.tasks = [self._task(number) for number in range(TASKS)]

    def _task(self, number: int) -> Task:
        status = _status(number % 100)
        moment = self.now - timedelta(seconds=TASKS - number)
        return replace(
            self._model,
            id=str(uuid7()),
            batch_id=self.batches[number // PER_BATCH],
            position=number % PER_BATCH,
            kind=f"kind {number % LANES}",
            lane=number % LANES,
            status=status,
            delayed=status is Status.PENDING and number % 100 < 5,
            linked=status is Status.WAITING,
            waits=int(status is Status.WAITING),
            priority=number % 3,
            run_at=moment + timedelta(days=1) if number % 100 < 5 else None,
            next_retry_at=moment + timedelta(days=1) if status is Status.RETRY_PENDING else None,
            created_at=moment,
            last_updated=moment,
            ended_at=None if status.is_live else moment,
            locked_by="here" if status in (Status.CLAIMED, Status.RUNNING) else None,
        )

    def some(self, status: Status, most: int = 20) -> list[Task]:
        found = [task for task in self.tasks if task.status is status]
        return found[:: max(1, len(found) // most)][:most]

    async def move_in(self, store: AnyStore) -> None:
        await store.write(self._insert)

    async def _insert(self, session: Session) -> None:
        batches = [replace(self._batch, id=id) for id in self.batches]
        await session.insert("batch", BATCH_COLUMNS, [values_of(batch, BATCH_COLUMNS) for batch in batches])
        await session.insert("task", (*TASK_COLUMNS, *_EXTRA), [self._task_row(task) for task in self.tasks])
        links = [
            (self.tasks[number - 1 - offset * 7].id, task.id, "on_success")
            for number, task in enumerate(self.tasks)
            if task.status is Status.WAITING and number > 30
            for offset in range(3)
        ]
        await session.insert("link", ("parent_id", "child_id", "condition"), links)
        await session.insert(
            "webhook_execution", (*_LEDGER, *_LEDGER_REST), [self._ledger_row(task) for task in self.tasks]
        )

    def _task_row(self, task: Task) -> tuple[Any, ...]:
        leased = self.now + timedelta(seconds=60) if task.status is Status.CLAIMED else None
        times_out_at = self.now + timedelta(seconds=60) if task.status is Status.RUNNING else None
        return (*values_of(task, TASK_COLUMNS), leased, times_out_at)

    def _ledger_row(self, task: Task) -> tuple[Any, ...]:
        due = self.now + timedelta(hours=1) if task.status is Status.FAILURE else None
        key = idempotency_key(task.id, Trigger.START, task.attempt)
        row = (str(uuid7()), task.id, "start", "success", 0, 0, key, "success")
        return (*row, 1, None, due, self.now, self.now)


def _status(percentile: int) -> Status:
    for status, share in SHARES.items():
        if percentile < share:
            return status
        percentile -= share
    return Status.SUCCESS
