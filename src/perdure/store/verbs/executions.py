"""Execution retry: a batch that ended with a failure is run again as a whole, by its own policy.

The first batch of the chain keeps the books: its `retry_state` is open (running, never failed), scheduled (a moment is
set), retrying (a repetition runs), completed, failed or cancelled; `execution_id` names the batch that runs for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from perdure.domain.model import ErrorClass, Failure, FailureTrigger, Submission
from perdure.domain.retry import Fail, Retry
from perdure.domain.states import Status
from perdure.store.changes import Row
from perdure.store.interface import Session
from perdure.store.verbs.submit import Submit, submit

KEPT_ERRORS = 100
FIRST_ID = "00000000-0000-0000-0000-000000000000"

DecideBatch = Callable[[Row, Failure], Retry | Fail]
"""What becomes of a batch that ended with a failure, given its row."""


async def settle_executions(session: Session, most: int, decide: DecideBatch) -> int:
    """Judge batches whose last task has ended: done, to be run again, or failed for good."""
    settled = 0
    after = FIRST_ID
    while True:
        ended = await session.fetch("ended_executions", after=after, most=most)
        failures: dict[str, list[Row]] = {row["id"]: [] for row in ended}
        for row in await session.fetch("execution_failures", [(row["id"], row["execution_id"]) for row in ended]):
            failures[row["id"]].append(row)
        verdicts = [_judge(row, failures[row["id"]], decide) for row in ended]
        rows = await session.fetch("settle_executions", [verdict.row() for verdict in verdicts])
        won = {row["id"] for row in rows}
        for verdict in verdicts:
            if verdict.batch["id"] in won:
                _note(session, verdict)
        settled += len(won)
        if len(ended) < most:
            return settled
        after = ended[-1]["id"]


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What becomes of a batch whose last task has ended, by the version of it that was judged."""

    batch: Row
    state: str
    errors: str | None
    at: datetime | None = None
    reason: str | None = None
    """Why it is not run again, if it failed for good."""

    def row(self) -> tuple[object, ...]:
        return self.batch["id"], self.batch["version"], self.state, self.at, self.errors


def _judge(batch: Row, ended: Sequence[Row], decide: DecideBatch) -> _Verdict:
    failed = [row for row in ended if row["status"] == Status.FAILURE]
    if not failed:
        return _Verdict(batch, "cancelled" if ended else "completed", batch["error_history"])
    errors = msgspec.json.decode(batch["error_history"]) if batch["error_history"] else []
    errors += [_error(row, batch["retry_count"]) for row in failed]
    history = msgspec.json.encode(errors[-KEPT_ERRORS:]).decode()
    decisions = [decide(batch, _failure(row)) for row in failed]
    refusals = [decision.reason for decision in decisions if isinstance(decision, Fail)]
    if refusals:
        return _Verdict(batch, "failed", history, reason=refusals[0])
    at = max(decision.at for decision in decisions if isinstance(decision, Retry))
    return _Verdict(batch, "scheduled", history, at)


def _note(session: Session, verdict: _Verdict) -> None:
    """Tell the operator what becomes of a batch that failed, and the loops when it is due."""
    fields = {"batch": verdict.batch["id"], "attempt": verdict.batch["retry_count"]}
    if verdict.at is not None:
        session.changes.due(verdict.at)
        moment = verdict.at.isoformat(timespec="milliseconds")
        fields["next_retry_at"] = moment
        session.changes.note(logging.INFO, "a batch failed; it is run again", fields.copy)
    elif verdict.reason is not None:
        fields["reason"] = verdict.reason
        session.changes.note(logging.WARNING, "a batch failed; it is not run again", fields.copy)


def _failure(row: Row) -> Failure:
    return Failure(
        FailureTrigger(row["trigger"] or FailureTrigger.EXPLICIT),
        ErrorClass(row["error_class"] or ErrorClass.RETRYABLE),
        f"{row['name']}: {row['failure_reason']}",
        row["http_status"],
        None,
        row["code"],
    )


def _error(row: Row, execution: int) -> dict[str, object]:
    return {
        "attempt": execution,
        "timestamp": row["ended_at"],
        "error": f"{row['name']}: {row['failure_reason']}",
        "error_class": row["error_class"],
        "http_status": row["http_status"],
        "code": row["code"],
    }


async def launch_executions(
    session: Session, submissions: Sequence[Submission], broken: Sequence[str]
) -> list[Submission]:
    """Store repetitions that are due, each only if nobody else did or canceled it; `broken` cannot be repeated."""
    await session.fetch("fail_executions", [(id,) for id in broken])
    rows = [(one.batch.retry_of, one.batch.id) for one in submissions]
    launched = {row["execution_id"] for row in await session.fetch("launch_executions", rows)}
    taken = [one for one in submissions if one.batch.id in launched]
    if taken:
        await submit(session, [Submit(one) for one in taken])
    return taken


async def due_executions(session: Session, most: int) -> list[Row]:
    return await session.fetch("due_executions", most=most)


async def next_execution(session: Session) -> datetime | None:
    moment: datetime | None = (await session.fetch("next_execution"))[0]["due_at"]
    return moment
