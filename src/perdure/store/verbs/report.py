"""Reports about a task from outside: progress, changes of its metadata, its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from perdure.domain.checks import METADATA_BYTES
from perdure.domain.errors import Invalid, PerdureError, Problem
from perdure.domain.model import Failure
from perdure.domain.rules import Rule, lane_of
from perdure.domain.states import ACTIVE, Status
from perdure.store.changes import Row
from perdure.store.interface import Session
from perdure.store.verbs.end import Succeed, refusal, succeed
from perdure.store.verbs.fail import Decide, settle_failures


@dataclass(frozen=True, slots=True)
class Edit:
    """What changes on a live task besides its status."""

    metadata: Mapping[str, Any] | None = None
    new_success: int = 0
    new_failures: int = 0
    expected_count: int | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """One report. `succeeded` or `failure` ends the attempt; an edit comes first."""

    task_id: str
    attempt: int | None
    edit: Edit | None = None
    succeeded: bool = False
    result: str | None = None
    failure: Failure | None = None


async def apply_reports(session: Session, items: Sequence[Report], decide: Decide) -> list[Row | PerdureError]:
    """Apply reports in the order in which they came; the rows are the tasks as they are afterwards."""
    ids = sorted({item.task_id for item in items})
    await session.fetch("lock_batches", [(id,) for id in ids])
    rows = {row["id"]: row for row in await session.fetch("lock_tasks", [(id,) for id in ids])}
    results: dict[int, Row | PerdureError] = {}
    waiting = list(enumerate(items))
    while waiting:
        wave, waiting = _one_per_task(waiting)
        await _apply(session, wave, rows, results, decide)
        # What was reported of one task may have ended others.
        again = sorted({(item.task_id,) for _, item in waiting})
        rows.update({row["id"]: row for row in await session.fetch("lock_tasks", again)})
    return [results[index] for index in range(len(items))]


def _one_per_task(
    items: list[tuple[int, Report]],
) -> tuple[list[tuple[int, Report]], list[tuple[int, Report]]]:
    """The first report of each task, and the rest."""
    seen: set[str] = set()
    now: list[tuple[int, Report]] = []
    later: list[tuple[int, Report]] = []
    for index, item in items:
        (later if item.task_id in seen else now).append((index, item))
        seen.add(item.task_id)
    return now, later


async def _apply(
    session: Session,
    wave: Sequence[tuple[int, Report]],
    rows: dict[str, Row],
    results: dict[int, Row | PerdureError],
    decide: Decide,
) -> None:
    taken: list[tuple[int, Report]] = []
    for index, item in wave:
        row = rows.get(item.task_id)
        if row is None or not _takes(row, item):
            results[index] = refusal(item.task_id, item.attempt, row)
        elif problems := _broken_rules(row, item.edit):
            results[index] = Invalid(problems)
        else:
            taken.append((index, item))
    edits = [_edited(rows[item.task_id], item.edit) for _, item in taken if item.edit is not None]
    _remember(rows, await session.fetch("edit", edits))
    succeeding = [
        Succeed(item.task_id, rows[item.task_id]["attempt"], item.result, linked=False)
        for _, item in taken
        if item.succeeded
    ]
    if succeeding:
        _remember(rows, [row for row in await succeed(session, succeeding) if not isinstance(row, PerdureError)])
    failing = [(rows[item.task_id], item.failure) for _, item in taken if item.failure is not None]
    if failing:
        _remember(rows, (await settle_failures(session, failing, decide)).values())
    for index, item in taken:
        results[index] = rows[item.task_id]


def _remember(rows: dict[str, Row], found: Any) -> None:
    for row in found:
        rows[row["id"]] = {**dict(rows[row["id"]]), **dict(row)}


def _takes(row: Row, item: Report) -> bool:
    """Whether the task takes this report: an end needs somebody working on it, an edit a live task."""
    if item.attempt not in (None, row["attempt"]):
        return False
    if item.succeeded or item.failure is not None:
        return row["status"] in ACTIVE
    return Status(row["status"]).is_live


def _broken_rules(row: Row, edit: Edit | None) -> list[Problem]:
    """What the metadata would break once the edit is merged into it."""
    if edit is None or edit.metadata is None:
        return []
    merged = _merged(row, edit.metadata)
    problems = []
    size = len(msgspec.json.encode(merged))
    if size > METADATA_BYTES:
        problems.append(Problem("metadata", f"would have {size} bytes; {METADATA_BYTES // 1024} KiB are allowed"))
    needed = {name for rule in _rules(row) for name in rule.matcher.fields}
    return problems + [
        Problem("metadata", f"a rule of the task needs the field {name!r}; it cannot be removed")
        for name in sorted(needed - set(merged))
    ]


def _merged(row: Row, patch: Mapping[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = merge_patch(msgspec.json.decode(row["metadata"]) if row["metadata"] else {}, patch)
    return merged


def _rules(row: Row) -> list[Rule]:
    return [Rule.from_json(rule) for rule in msgspec.json.decode(row["rules"])]


def _edited(row: Row, edit: Edit) -> tuple[object, ...]:
    metadata = row["metadata"]
    lane = row["lane"]
    if edit.metadata is not None:
        merged = _merged(row, edit.metadata)
        metadata = msgspec.json.encode(merged).decode()
        rules = _rules(row)
        lane = lane_of(row["executor"], row["namespace"], row["kind"], rules, merged, row["destination"])
    return (
        row["id"],
        metadata,
        lane,
        row["priority"] if edit.priority is None else edit.priority,
        row["expected_count"] if edit.expected_count is None else edit.expected_count,
        edit.new_success,
        edit.new_failures,
    )


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396: members of `patch` replace those of `target`, null removes."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
