"""Runs whole batches again: judges those that ended, and launches repetitions that are due."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

import msgspec

from perdure.clock import Clock
from perdure.domain.errors import Invalid
from perdure.domain.model import Submission
from perdure.engine.intake import Intake
from perdure.engine.loops.loop import Loop
from perdure.store.changes import Row
from perdure.store.interface import Store
from perdure.store.verbs.executions import (
    DecideBatch,
    due_executions,
    launch_executions,
    next_execution,
    settle_executions,
)

log = logging.getLogger("perdure.engine")

PAGE = 200
LAUNCHED_AT_ONCE = 10


class ExecutionLoop(Loop):
    """The tasks' own retries come first: a batch is judged once its last task has ended."""

    name = "executions"

    def __init__(self, store: Store, intake: Intake, clock: Clock, decide: DecideBatch, interval_secs: float) -> None:
        self.interval_secs = interval_secs
        self._store = store
        self._intake = intake
        self._clock = clock
        self._decide = decide

    async def run_once(self) -> bool:
        await self._store.write(lambda session: settle_executions(session, PAGE, self._decide))
        due = await self._store.read(lambda session: due_executions(session, LAUNCHED_AT_ONCE))
        if not due:
            return False
        submissions, broken = self._repeat(due)
        launched = await self._store.write(lambda session: launch_executions(session, submissions, broken))
        for submission in launched:
            log.info(
                "running a failed batch again",
                extra={
                    "fields": {
                        "batch": submission.batch.retry_of,
                        "execution": submission.batch.id,
                        "attempt": submission.batch.attempt,
                    }
                },
            )
        return len(launched) == LAUNCHED_AT_ONCE

    def _repeat(self, due: Sequence[Row]) -> tuple[list[Submission], list[str]]:
        """What to store for the batches that are due, and the ids of those that cannot be repeated."""
        submissions: list[Submission] = []
        broken: list[str] = []
        for row in due:
            try:
                submissions.append(self._intake.repeat(row, self._clock.now()))
            except (Invalid, msgspec.MsgspecError) as error:
                broken.append(row["id"])
                log.error(
                    "a batch cannot be run again: its definition no longer keeps the rules; it has failed",
                    extra={"fields": {"batch": row["id"], "error": str(error)}},
                )
        return submissions, broken

    async def next_moment(self) -> datetime | None:
        return await self._store.read(next_execution)
