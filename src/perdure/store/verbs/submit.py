"""Storing batches: whole or not at all, without duplicates."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from perdure.domain.errors import KeyReused, PerdureError, StillProcessing
from perdure.domain.model import Submission, Task
from perdure.domain.rules import values_key
from perdure.domain.states import Status
from perdure.store.changes import Moved
from perdure.store.interface import Session
from perdure.store.records import BATCH_COLUMNS, LINK_COLUMNS, TASK_COLUMNS, values_of


@dataclass(frozen=True, slots=True)
class SubmissionKey:
    """An `Idempotency-Key` with the hash of the body that came with it, and how the answer will look."""

    key: str
    body_hash: str
    render: Callable[[str, list[Task]], bytes]


@dataclass(frozen=True, slots=True)
class Submit:
    submission: Submission
    key: SubmissionKey | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """What was stored: the tasks that are no duplicates; for a key seen before, the answer given then."""

    batch_id: str
    tasks: list[Task]
    answer: bytes | None = None


async def submit(session: Session, items: Sequence[Submit]) -> list[Submitted | PerdureError]:
    results: dict[int, Submitted | PerdureError] = {}
    fresh = await _reserve_keys(session, items, results)
    duplicates = await _find_duplicates(session, [items[index].submission for index in fresh])
    kept = [_without_duplicates(items[index].submission, duplicates) for index in fresh]
    stored = [submission for submission in kept if submission.tasks]
    await session.insert("batch", BATCH_COLUMNS, [values_of(one.batch, BATCH_COLUMNS) for one in stored])
    await session.insert("task", TASK_COLUMNS, [values_of(task, TASK_COLUMNS) for one in stored for task in one.tasks])
    links = [values_of(link, LINK_COLUMNS) for one in stored for link in one.links]
    if links:
        await session.insert("link", LINK_COLUMNS, links)
    _tell(session, stored)
    for index, submission in zip(fresh, kept, strict=True):
        submitted = Submitted(submission.batch.id, submission.tasks)
        results[index] = submitted
        await _keep_answer(session, items[index].key, submitted)
    return [results[index] for index in range(len(items))]


async def _reserve_keys(
    session: Session, items: Sequence[Submit], results: dict[int, Submitted | PerdureError]
) -> list[int]:
    """The items to store now; the others get in `results` the answer that their key got before."""
    first_by_key: dict[str, int] = {}
    repeated: list[int] = []
    fresh: list[int] = []
    for index, item in enumerate(items):
        if item.key is None:
            fresh.append(index)
        elif first_by_key.setdefault(item.key.key, index) != index:
            repeated.append(index)
    if not first_by_key:
        return fresh
    keys = [item.key for item in (items[index] for index in first_by_key.values()) if item.key is not None]
    reserved = {
        row["key"] for row in await session.fetch("reserve_submissions", [(key.key, key.body_hash) for key in keys])
    }
    known = {
        row["key"]: row
        for row in await session.fetch("read_submissions", [(key.key,) for key in keys if key.key not in reserved])
    }
    for text, index in first_by_key.items():
        (fresh if text in reserved else repeated).append(index)
    for index in repeated:
        key = items[index].key
        assert key is not None
        row = known.get(key.key)
        if row is None:
            results[index] = StillProcessing(StillProcessing.__doc__ or "")
        elif row["body_hash"] != key.body_hash:
            results[index] = KeyReused(KeyReused.__doc__)
        else:
            results[index] = Submitted(row["batch_id"], [], zlib.decompress(row["answer"]))
    return sorted(fresh)


async def _keep_answer(session: Session, key: SubmissionKey | None, submitted: Submitted) -> None:
    if key is None:
        return
    await session.fetch(
        "answer_submissions",
        key=key.key,
        status=1,
        batch_id=submitted.batch_id,
        answer=zlib.compress(key.render(submitted.batch_id, submitted.tasks), 1),
    )


async def _find_duplicates(session: Session, submissions: Iterable[Submission]) -> set[str]:
    """Ids of tasks that repeat an existing task, or one that stands before them."""
    wanting = [submission for submission in submissions if submission.twins]
    if not wanting:
        return set()
    await session.fetch("lock_name", name="dedupe")
    rows = [
        (task_id, twin.kind, twin.status, twin.wanted)
        for submission in wanting
        for task_id, twins in submission.twins.items()
        for twin in twins
    ]
    duplicates = {row["id"] for row in await session.fetch("find_twins", rows)}
    return duplicates | _inner_duplicates(wanting, duplicates)


def _inner_duplicates(submissions: Sequence[Submission], duplicates: set[str]) -> set[str]:
    """Ids of tasks that repeat one which is being stored in the same transaction."""
    wanted = {
        id: [(twin, json.loads(twin.wanted)) for twin in twins]
        for submission in submissions
        for id, twins in submission.twins.items()
    }
    patterns = {(twin.kind, tuple(sorted(fields))) for twins in wanted.values() for twin, fields in twins}
    seen: set[tuple[str, str, tuple[str, ...], str]] = set()
    repeated: set[str] = set()
    for task in (task for submission in submissions for task in submission.tasks):
        keys = {
            (twin.kind, twin.status, tuple(sorted(fields)), values_key(fields, sorted(fields)))
            for twin, fields in wanted.get(task.id, [])
        }
        if keys & seen:
            repeated.add(task.id)
        elif task.id not in duplicates:
            metadata = json.loads(task.metadata) if task.metadata else {}
            for kind, fields in patterns:
                if kind == task.kind and all(name in metadata for name in fields):
                    seen.add((kind, task.status.value, fields, values_key(metadata, fields)))
    return repeated


def _without_duplicates(submission: Submission, duplicates: set[str]) -> Submission:
    """The submission without the tasks that exist already; nobody waits for those.

    The submission itself stays as it was: if this transaction is run again, it may find other duplicates.
    """
    if not duplicates:
        return submission
    links = [link for link in submission.links if link.parent_id not in duplicates and link.child_id not in duplicates]
    waits: dict[str, int] = {}
    linked: set[str] = set()
    for link in links:
        waits[link.child_id] = waits.get(link.child_id, 0) + 1
        linked.update((link.parent_id, link.child_id))
    tasks = [
        replace(
            task,
            waits=waits.get(task.id, 0),
            linked=task.id in linked,
            status=Status.WAITING if waits.get(task.id) else Status.PENDING,
        )
        for task in submission.tasks
        if task.id not in duplicates
    ]
    return Submission(submission.batch, tasks, links)


def _tell(session: Session, stored: Iterable[Submission]) -> None:
    for submission in stored:
        for task in submission.tasks:
            session.changes.moved.append(Moved(task.id, task.batch_id, task.kind, None, task.status, task.attempt))
            if task.delayed:
                session.changes.due(task.run_at)
