"""Execution retry: a batch that ended with a failure is run again as a whole, by its own policy.

The first batch of the chain keeps the books: its `retry_state` is open (running, never failed), scheduled (a moment is
set), retrying (a repetition runs), completed, failed or cancelled; `execution_id` names the batch that runs for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        verdicts = [_judge(session, row, failures[row["id"]], decide) for row in ended]
        settled += len(await session.fetch("settle_executions", verdicts))
        if len(ended) < most:
            return settled
        after = ended[-1]["id"]


def _judge(session: Session, batch: Row, ended: Sequence[Row], decide: DecideBatch) -> tuple[object, ...]:
    """The row of a verdict: id, execution, state, next moment, errors so far."""
    failed = [row for row in ended if row["status"] == Status.FAILURE]
    errors = msgspec.json.decode(batch["error_history"]) if batch["error_history"] else []
    if not failed:
        state = "cancelled" if ended else "completed"
        return batch["id"], batch["execution_id"], state, None, batch["error_history"]
    errors += [_error(row, batch["retry_count"]) for row in failed]
    history = msgspec.json.encode(errors[-KEPT_ERRORS:]).decode()
    decisions = [decide(batch, _failure(row)) for row in failed]
    moments = [decision.at for decision in decisions if isinstance(decision, Retry)]
    if len(moments) < len(decisions):
        return batch["id"], batch["execution_id"], "failed", None, history
    at = max(moments)
    session.changes.due(at)
    return batch["id"], batch["execution_id"], "scheduled", at, history


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


async def launch_executions(session: Session, submissions: Sequence[Submission], broken: Sequence[str]) -> int:
    """Store repetitions that are due, each only if nobody else did or canceled it; `broken` cannot be repeated."""
    await session.fetch("fail_executions", [(id,) for id in broken])
    rows = [(one.batch.retry_of, one.batch.id) for one in submissions]
    launched = {row["execution_id"] for row in await session.fetch("launch_executions", rows)}
    taken = [Submit(one) for one in submissions if one.batch.id in launched]
    if taken:
        await submit(session, taken)
    return len(taken)


async def due_executions(session: Session, most: int) -> list[Row]:
    return await session.fetch("due_executions", most=most)


async def next_execution(session: Session) -> datetime | None:
    moment: datetime | None = (await session.fetch("next_execution"))[0]["due_at"]
    return moment
