"""The answers to on_start: accepted, refused, or the result itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from perdure.domain.errors import NotRunning, PerdureError
from perdure.domain.keys import Trigger, idempotency_key
from perdure.domain.model import Failure
from perdure.domain.states import PAUSED_LABEL, Status
from perdure.store.actions import actions_for, with_cancel_action
from perdure.store.changes import Delivery, Moved, Row
from perdure.store.interface import Session
from perdure.store.verbs.end import Succeed, succeed
from perdure.store.verbs.fail import Decide, Failed, fail


@dataclass(frozen=True, slots=True)
class Answered:
    """How an on_start call went. Exactly one of accepted, finished and failure says what it means for the task."""

    task_id: str
    attempt: int
    http_status: int | None
    error: str | None = None
    finished: bool = False
    result: str | None = None
    failure: Failure | None = None
    cancel_params: str | None = None
    """The action that the receiver wants to be called by on cancel, as JSON text."""
    claimed_at: datetime | None = None
    """When the task was claimed for this call. A refusal of a call that was taken over since then counts no more."""
    linked: bool = True
    """False if the task is known to stand alone: then there is no DAG to lock."""


async def settle_starts(session: Session, answers: Sequence[Answered], decide: Decide) -> list[None]:
    """Record each answer and move its task on, unless the task was moved by somebody else meanwhile."""
    ending = [one for one in answers if one.finished or one.failure]
    await session.fetch("lock_batches", [(one.task_id,) for one in ending if one.linked])
    finished = [one for one in answers if one.finished]
    # What is linked is locked already.
    reports = await succeed(session, [Succeed(one.task_id, one.attempt, one.result, linked=False) for one in finished])
    lost = {_key(one) for one, report in zip(finished, reports, strict=True) if _is_unclaimed(report)}
    recorded = await _record(session, answers, lost)
    await _start(session, [one for one in answers if not one.finished and not one.failure])
    # A refusal whose ledger row is not ours any more comes from a claim that ran out: the one who took over goes on.
    refused = [
        Failed(one.task_id, one.attempt, one.failure, linked=False)
        for one in answers
        if one.failure and _key(one) in recorded
    ]
    if refused:
        await fail(session, refused, decide)
    return [None] * len(answers)


def _key(answer: Answered) -> str:
    return idempotency_key(answer.task_id, Trigger.START, answer.attempt)


def _is_unclaimed(report: Row | PerdureError) -> bool:
    """Whether a result was refused because the claim ran out and nobody has taken the task since."""
    return isinstance(report, NotRunning) and report.status_label in (Status.PENDING.label, PAUSED_LABEL)


async def _record(session: Session, answers: Sequence[Answered], lost: set[str]) -> set[str]:
    """Write answers to the ledger; the keys of those that were. What was `lost` must be asked for again."""
    rows = []
    for one in answers:
        failed = one.failure is not None or _key(one) in lost
        rows.append((_key(one), one.claimed_at, "failure" if failed else "success", one.http_status, one.error))
        session.changes.count("webhook_executions", f"start {'failure' if failed else 'success'}")
    settled = await session.fetch("settle_starts", rows, instance=session.options.instance)
    return {row["idempotency_key"] for row in settled}


async def _start(session: Session, accepted: Sequence[Answered]) -> None:
    started = await session.fetch("start", sorted((one.task_id, one.attempt) for one in accepted))
    for row in started:
        session.changes.moved.append(
            Moved(row["id"], row["batch_id"], row["kind"], Status.CLAIMED, Status.RUNNING, row["attempt"])
        )
    named = {one.task_id: one for one in accepted if one.cancel_params is not None}
    if named:
        await _keep_cancel_actions(session, named)


async def _keep_cancel_actions(session: Session, named: dict[str, Answered]) -> None:
    """Remember how to cancel; who was canceled while the call was under way is told at once."""
    rows = await session.fetch("lock_tasks", [(id,) for id in sorted(named)])
    changed: list[tuple[str, int, str]] = []
    for row in rows:
        answer = named[row["id"]]
        params = answer.cancel_params
        if params is None or row["attempt"] != answer.attempt:
            continue
        if row["status"] == Status.CANCELED:
            session.changes.deliveries.append(_late_cancel(row, params))
        elif Status(row["status"]).is_live:
            changed.append((row["id"], row["attempt"], with_cancel_action(row["actions"], params, row["attempt"])))
    await session.fetch("replace_actions", changed)


def _late_cancel(row: Row, params: str) -> Delivery:
    index = len(actions_for(row["actions"], Trigger.CANCEL, row["attempt"]))
    return Delivery(row["id"], Trigger.CANCEL, row["attempt"], index, params)
