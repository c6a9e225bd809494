"""What the view `retry_schedules` shows, and the loop that runs batches again."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from perdure.domain.policy import RetryLimits
from perdure.engine.decisions import batch_decision_maker
from perdure.engine.loops.executions import ExecutionLoop
from tests.store.scenario import Scenario, new_intake

COLUMNS = [
    "id", "retry_type", "target_id", "execution_id", "node_id", "retry_strategy", "max_attempts", "current_attempt",
    "initial_delay_seconds", "delay_seconds", "multiplier", "max_delay_seconds", "custom_schedule", "scheduled_at",
    "last_retried_at", "expires_at", "status", "locked_by", "locked_at", "retry_context", "error_history", "created_at",
    "updated_at", "version",
]  # fmt: skip


async def retry_rows(scenario: Scenario) -> dict[str, dict[str, Any]]:
    """Every row of the view with its JSON decoded, by the task's key, or by the id of the batch."""
    rows = await scenario.query("SELECT * FROM retry_schedules ORDER BY scheduled_at, id")
    return {row["node_id"] or row["id"]: _decoded(dict(row)) for row in rows}


def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    for column in ("custom_schedule", "retry_context", "error_history"):
        if row[column] is not None:
            row[column] = json.loads(row[column])
    return row


async def retry_row(scenario: Scenario, key: str) -> dict[str, Any]:
    return (await retry_rows(scenario))[key]


def execution_loop(scenario: Scenario) -> ExecutionLoop:
    """Judges batches that ended, and runs them again when that is due."""
    decide = batch_decision_maker(RetryLimits(), scenario.clock, Random(1))
    return ExecutionLoop(scenario.store, new_intake(), scenario.clock, decide, interval_secs=1)
