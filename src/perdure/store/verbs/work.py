"""What Python workers do with tasks: keep them, show that they live, end them, and are lost with them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from perdure.domain.errors import PerdureError
from perdure.domain.model import ErrorClass, Executor, Failure, FailureTrigger
from perdure.domain.states import Status
from perdure.store.changes import Row
from perdure.store.interface import Session
from perdure.store.verbs.claim import Claim, claim
from perdure.store.verbs.end import Succeed, succeed
from perdure.store.verbs.fail import Decide, Failed, fail, settle_failures
from perdure.store.verbs.time import release_retries

WORKER_LOST = Failure(FailureTrigger.WORKER_LOST, ErrorClass.RETRYABLE, "The worker was lost")


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign of life of a task, with its progress where that is known."""

    task_id: str
    attempt: int
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """What a worker has to tell and what it asks for, in one transaction."""

    succeeded: Sequence[Succeed]
    failed: Sequence[Failed]
    wanted: Claim | None
    reading: Container[str] = ()
    """Kinds whose functions read the results of what they waited for."""
    signs: Sequence[Sign] = ()
    """How far those were that ended."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What came of a round: tasks to run now, what each waited for, and the results that came too late."""

    begun: list[Row] = field(default_factory=list)
    parents: dict[str, list[Row]] = field(default_factory=dict)
    refused: list[PerdureError] = field(default_factory=list)


async def work(session: Session, told: Round, decide: Decide) -> Turn:
    """Take results in and hand tasks out: one commit for everything that came together."""
    refused: list[PerdureError] = []
    if told.signs:
        # Batches are locked before their tasks, here as everywhere.
        await session.fetch("lock_batches", sorted((sign.task_id,) for sign in told.signs))
        await show_life(session, told.signs)
    if told.succeeded:
        refused += [answer for answer in await succeed(session, told.succeeded) if isinstance(answer, PerdureError)]
    if told.failed:
        answers = await fail(session, told.failed, decide)
        refused += [answer for answer in answers if isinstance(answer, PerdureError)]
        # A retry without a wait need not wait for the loop that looks for due ones either.
        await release_retries(session, _due_at_once(session, answers))
    if told.wanted is None:
        return Turn(refused=refused)
    begun = (await claim(session, told.wanted)).to_start
    reading = [row["id"] for row in begun if row["linked"] and row["kind"] in told.reading]
    return Turn(begun, await parent_results(session, reading), refused)


def _due_at_once(session: Session, answers: Sequence[Row | PerdureError]) -> dict[str, datetime]:
    return {
        row["id"]: row["next_retry_at"]
        for row in answers
        if not isinstance(row, PerdureError)
        and row["status"] == Status.RETRY_PENDING
        and not row["paused"]
        and row["next_retry_at"] <= session.now
    }


async def renew_leases(session: Session, held: Sequence[tuple[str, int]], until: datetime) -> set[tuple[str, int]]:
    """Keep tasks for longer; returns those (id, attempt) that are still this instance's."""
    rows = await session.fetch("renew_leases", sorted(held), lease_until=until, instance=session.options.instance)
    return {(row["id"], row["attempt"]) for row in rows}


async def show_life(session: Session, signs: Sequence[Sign]) -> None:
    """Let the timeouts of tasks begin afresh, and write down how far they are."""
    rows = sorted((sign.task_id, sign.attempt, sign.done, sign.total) for sign in signs)
    await session.fetch("show_life", rows, instance=session.options.instance)


async def lose_workers(session: Session, most: int, decide: Decide) -> list[Row]:
    """Fail running tasks whose worker shows no life; each is looked at again under its lock."""
    found = await session.fetch("lost_workers", most=most)
    ids = sorted((row["id"],) for row in found)
    await session.fetch("lock_batches", ids)
    lost = [row for row in await session.fetch("lock_tasks", ids) if _is_lost(row, session.now)]
    await settle_failures(session, [(row, WORKER_LOST) for row in lost], decide)
    return lost


def _is_lost(row: Row, now: datetime) -> bool:
    until = row["lease_until"]
    return (
        row["status"] == Status.RUNNING
        and row["executor"] == Executor.WORKER
        and until is not None
        and bool(until <= now)
    )


async def parent_results(session: Session, ids: Sequence[str]) -> dict[str, list[Row]]:
    """By task: what it waited for, with key, kind, status and result, in the order of the batch."""
    found: dict[str, list[Row]] = {}
    for row in await session.fetch("parent_results", [(id,) for id in ids]):
        found.setdefault(row["id"], []).append(row)
    return found
