"""What must hold in every database at every time, whatever was done to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise

from perdure.domain.destinations import NOWHERE
from perdure.domain.keys import Trigger
from perdure.domain.model import Condition
from perdure.domain.rules import Rule, lane_of
from perdure.domain.states import ACTIVE, PAUSED, TRANSITIONS, Status
from perdure.store.actions import actions_for, destination_of_action
from perdure.store.changes import Row
from perdure.store.interface import Session, Store

_MOVES = {(move.source.value, move.target.value) for move in TRANSITIONS}
_OWNED = {"link": "child_id", "task_attempt": "task_id", "event": "task_id", "webhook_execution": "task_id"}
#: What an ended parent must have become for a child's condition to be met.
_MEETS = {
    Condition.ALWAYS: {Status.SUCCESS, Status.FAILURE, Status.CANCELED, Status.SKIPPED},
    Condition.ON_SUCCESS: {Status.SUCCESS},
    Condition.ON_FAILURE: {Status.FAILURE, Status.CANCELED},
}


async def audit(store: Store) -> None:
    """Read the whole database and check that it agrees with itself."""
    await store.read(_audit)


async def _audit(session: Session) -> None:
    tasks = {row["id"]: row for row in await session.query("SELECT * FROM task", [])}
    await _audit_orphans(session, tasks)
    for task in tasks.values():
        _audit_task(task)
    _audit_waits(tasks, await session.query("SELECT * FROM link", []))
    _audit_trail(tasks, await session.query("SELECT * FROM event ORDER BY seq", []))
    for row in await session.query("SELECT task_id, attempt FROM task_attempt", []):
        assert row["attempt"] <= tasks[row["task_id"]]["attempt"], "an attempt that the task has not reached"


async def _audit_orphans(session: Session, tasks: Mapping[str, Row]) -> None:
    batches = {row["id"] for row in await session.query("SELECT id FROM batch", [])}
    assert {task["batch_id"] for task in tasks.values()} == batches, "a task without its batch, or an empty batch"
    for table, column in _OWNED.items():
        owners = {row[column] for row in await session.query(f"SELECT DISTINCT {column} FROM {table}", [])}
        assert owners <= set(tasks), f"rows of {table} that belong to no task"


def _audit_task(task: Row) -> None:
    status = Status(task["status"])
    shown = task["id"], status, task["key"]
    assert task["waits"] >= 0 and task["success"] >= 0 and task["failures"] >= 0, shown
    assert (task["ended_at"] is not None) == (not status.is_live), shown
    assert (task["next_retry_at"] is not None) == (status is Status.RETRY_PENDING and not task["parked"]), shown
    assert (task["waits"] > 0) == (status is Status.WAITING) or not status.is_live, shown
    assert task["retry_count"] <= task["attempt"], shown
    assert (task["times_out_at"] is not None) == (status is Status.RUNNING and not task["paused"]), shown
    if status in ACTIVE:
        assert task["locked_by"] is not None and task["started_at"] is not None, shown
    else:
        assert task["lease_until"] is None, shown
    if status is Status.CLAIMED:
        assert task["lease_until"] is not None, shown
    if not status.is_live:
        assert not task["paused"], shown
    if task["parked"]:
        assert status is Status.RETRY_PENDING and task["paused"], shown
    whose = (task["executor"], task["namespace"], task["kind"])
    assert task["lane"] == _lane(*whose, task["rules"], task["metadata"], task["destination"]), shown
    called = [destination_of_action(params) for params in actions_for(task["actions"], Trigger.START, task["attempt"])]
    assert task["destination"] == (called[0] if called else NOWHERE), shown


@lru_cache(maxsize=1024)
def _lane(executor: str, namespace: str, kind: str, rules: str, metadata: str | None, destination: str) -> int:
    found = [Rule.from_json(rule) for rule in json.loads(rules)]
    return lane_of(executor, namespace, kind, found, json.loads(metadata) if metadata else {}, destination)


def _audit_waits(tasks: Mapping[str, Row], links: list[Row]) -> None:
    """A waiting task waits for exactly those parents whose outcome it has not seen."""
    unmet: dict[str, int] = {}
    for link in links:
        parent, child = tasks[link["parent_id"]], tasks[link["child_id"]]
        assert parent["linked"] and child["linked"]
        met = Status(parent["status"]) in _MEETS[Condition(link["condition"])]
        unmet[child["id"]] = unmet.get(child["id"], 0) + (not met)
    for id, task in tasks.items():
        if task["status"] == Status.WAITING:
            assert task["waits"] == unmet.get(id, 0), f"{task['key']} waits for {task['waits']} of {unmet.get(id, 0)}"


def _audit_trail(tasks: Mapping[str, Row], events: list[Row]) -> None:
    """Moves of a task follow each other without a gap, by the table of transitions, up to its present state."""
    trails: dict[str, list[Row]] = {}
    for event in events:
        if PAUSED in (event["from_status"], event["to_status"]):
            continue
        assert (event["from_status"], event["to_status"]) in _MOVES, dict(event)
        trails.setdefault(event["task_id"], []).append(event)
    for id, trail in trails.items():
        task = tasks[id]
        assert trail[0]["from_status"] in (Status.PENDING, Status.WAITING), dict(trail[0])
        assert trail[-1]["to_status"] == task["status"], dict(trail[-1])
        for earlier, later in pairwise(trail):
            assert earlier["to_status"] == later["from_status"], (dict(earlier), dict(later))
            assert earlier["attempt"] <= later["attempt"] <= task["attempt"], (dict(earlier), dict(later))
