"""The view `retry_schedules`: every task that has a policy and failed, on both databases."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.domain.model import ErrorClass, Failure, FailureTrigger
from perdure.domain.states import Status
from perdure.store.interface import StoreOptions
from perdure.store.retries import RETRY_STATUSES
from perdure.store.sqlite import SqliteStore
from perdure.testing import VirtualClock
from tests.store.databases import Database, SqliteDatabase
from tests.store.drafts import a_task, broken, fixed_retry
from tests.store.retry_rows import COLUMNS, retry_row, retry_rows
from tests.store.scenario import Scenario

FINAL = broken("bad input", ErrorClass.FINAL)


async def fail_one(scenario: Scenario, **task: Any) -> dict[str, Any]:
    """Let a task fail for the first time; its row."""
    await scenario.submit(a_task("a", **{"retry": fixed_retry(), **task}))
    await scenario.run("a")
    await scenario.fail("a")
    return await retry_row(scenario, "a")


async def test_a_task_that_waits_for_its_retry(scenario: Scenario) -> None:
    began = scenario.clock.now()
    batch_id = await scenario.submit(
        a_task("a", retry=fixed_retry(10, 3), payload={"x": [1]}, metadata={"customer": "ä"})
    )
    await scenario.run("a")
    scenario.clock.advance(2)
    await scenario.fail("a", failure=Failure(FailureTrigger.EXPLICIT, ErrorClass.RETRYABLE, "oh", 503, None, "busy"))
    row = await retry_row(scenario, "a")

    assert list(row) == COLUMNS
    assert row == {
        "id": scenario.ids["a"],
        "retry_type": "node_execution",
        "target_id": scenario.ids["a"],
        "execution_id": batch_id,
        "node_id": "a",
        "retry_strategy": "fixed_delay",
        "max_attempts": 3,
        "current_attempt": 1,
        "initial_delay_seconds": 5,
        "delay_seconds": 10,
        "multiplier": 2,
        "max_delay_seconds": 300,
        "custom_schedule": None,
        "scheduled_at": began + timedelta(seconds=12),
        "last_retried_at": None,
        "expires_at": None,
        "status": "scheduled",
        "locked_by": None,
        "locked_at": None,
        "retry_context": {"payload": {"x": [1]}, "metadata": {"customer": "ä"}},
        "error_history": [
            {
                "attempt": 0,
                "timestamp": "2030-01-01T00:00:02.000000Z",
                "error": "oh",
                "error_class": "retryable",
                "http_status": 503,
                "code": "busy",
            }
        ],
        "created_at": began,
        "updated_at": began + timedelta(seconds=2),
        "version": await scenario.column("a", "version"),
    }


async def test_only_what_has_a_policy_and_failed_is_shown(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("retried", retry=fixed_retry()),
        a_task("final", retry=fixed_retry()),
        a_task("in its wake", after="final", retry=fixed_retry()),
        a_task("without policy"),
        a_task("switched off", retry={**fixed_retry(), "enabled": False}),
        a_task("fine", retry=fixed_retry()),
        a_task("canceled", retry=fixed_retry()),
        a_task("new", retry=fixed_retry()),
    )
    running = ["retried", "final", "without policy", "switched off", "fine", "canceled"]
    await scenario.run(*running)
    await scenario.fail("retried", "without policy", "switched off")
    await scenario.fail("final", failure=FINAL)
    await scenario.succeed("fine")
    await scenario.cancel("canceled")
    rows = await retry_rows(scenario)

    assert set(rows) == {"retried", "final"}
    assert (rows["final"]["status"], rows["final"]["current_attempt"]) == ("failed", 0)
    assert rows["final"]["scheduled_at"] == rows["final"]["updated_at"]


@pytest.mark.parametrize(
    ("status", "paused", "shown"),
    [
        (Status.RETRY_PENDING, False, "scheduled"),
        (Status.PENDING, False, "scheduled"),
        (Status.CLAIMED, False, "retrying"),
        (Status.RUNNING, False, "retrying"),
        (Status.SUCCESS, False, "completed"),
        (Status.FAILURE, False, "failed"),
        (Status.CANCELED, False, "cancelled"),
        (Status.SKIPPED, False, "cancelled"),
        (Status.WAITING, False, "pending"),
        *[(status, True, "pending") for status in Status if status.is_live],
    ],
)
async def test_every_status_has_its_word(
    database: Database, clock: VirtualClock, status: Status, paused: bool, shown: str
) -> None:
    scenario = Scenario(database, clock, StoreOptions("here"))
    await scenario.open()
    await fail_one(scenario)
    flag = "TRUE" if paused else "FALSE"
    await scenario.store.write(lambda session: session.query(f"UPDATE task SET status = ?, paused = {flag}", [status]))
    row = await retry_row(scenario, "a")
    await scenario.close()

    assert row["status"] == shown
    assert shown in RETRY_STATUSES


async def test_a_retry_from_beginning_to_end(scenario: Scenario) -> None:
    first = await fail_one(scenario)
    due = scenario.clock.advance(10)
    await scenario.release_due()
    released = await retry_row(scenario, "a")
    assert (released["status"], released["scheduled_at"], released["last_retried_at"]) == ("scheduled", due, None)

    claimed_at = scenario.clock.advance(1)
    await scenario.claim()
    claimed = await retry_row(scenario, "a")
    assert (claimed["status"], claimed["locked_by"], claimed["locked_at"]) == ("retrying", "here", claimed_at)
    assert (claimed["scheduled_at"], claimed["last_retried_at"]) == (due, claimed_at)

    await scenario.accept("a")
    scenario.clock.advance(1)
    await scenario.fail("a", failure=broken("again"))
    waiting = await retry_row(scenario, "a")
    assert (waiting["status"], waiting["current_attempt"], waiting["locked_by"]) == ("scheduled", 2, None)
    assert waiting["scheduled_at"] == scenario.clock.now() + timedelta(seconds=10)
    assert waiting["last_retried_at"] == claimed_at
    assert [error["error"] for error in waiting["error_history"]] == ["it broke", "again"]

    scenario.clock.advance(10)
    await scenario.release_due()
    await scenario.run("a")
    await scenario.succeed("a")
    done = await retry_row(scenario, "a")
    assert (done["status"], done["scheduled_at"]) == ("completed", waiting["scheduled_at"])
    assert done["locked_by"] is done["locked_at"] is None
    assert len(done["error_history"]) == 2

    versions = [row["version"] for row in (first, released, claimed, waiting, done)]
    assert versions == sorted(set(versions))


async def test_a_lost_worker_is_an_error_too(scenario: Scenario) -> None:
    lost = Failure(FailureTrigger.WORKER_LOST, ErrorClass.RETRYABLE, "the worker is gone")
    await scenario.submit(a_task("a", retry=fixed_retry()))
    await scenario.run("a")
    await scenario.fail("a", failure=lost)
    row = await retry_row(scenario, "a")

    assert (row["status"], row["current_attempt"]) == ("scheduled", 0)
    assert row["error_history"][0]["error"] == "the worker is gone"


async def test_a_wait_that_was_dropped_by_hand_is_no_longer_ahead(scenario: Scenario) -> None:
    await fail_one(scenario, retry={"strategy": "custom", "max_retries": 1, "schedule": ["7d"]})
    now = scenario.clock.advance(60)
    await scenario.retry("a")
    row = await retry_row(scenario, "a")

    assert row["status"] == "scheduled"
    assert row["scheduled_at"] <= now


async def test_a_paused_retry_keeps_its_moment_and_a_parked_one_its_last(scenario: Scenario) -> None:
    waiting = await fail_one(scenario, retry=fixed_retry(10, 1, on_exhausted="pause"))
    await scenario.pause("a")
    paused = await retry_row(scenario, "a")
    assert (paused["status"], paused["scheduled_at"]) == ("pending", waiting["scheduled_at"])

    await scenario.resume("a")
    scenario.clock.advance(10)
    await scenario.release_due()
    await scenario.run("a")
    scenario.clock.advance(5)
    await scenario.fail("a")
    parked = await retry_row(scenario, "a")
    assert (parked["status"], parked["scheduled_at"]) == ("pending", waiting["scheduled_at"])
    assert (await scenario.task("a")).parked


async def test_a_custom_schedule_is_shown_in_seconds(scenario: Scenario) -> None:
    row = await fail_one(scenario, retry={"strategy": "custom", "max_retries": 5, "schedule": ["7d", 1.5]})

    assert row["custom_schedule"] == {
        "attempts": [{"attempt": 1, "delay_secs": 604_800}, {"attempt": 2, "delay_secs": 1.5}]
    }
    assert (row["retry_strategy"], row["delay_seconds"]) == ("custom", None)
    assert row["scheduled_at"] == scenario.clock.now() + timedelta(days=7)


async def test_numbers_of_exponential_backoff(scenario: Scenario) -> None:
    row = await fail_one(
        scenario,
        retry={"max_retries": 7, "initial_delay_secs": 1.25, "backoff_multiplier": 1.5, "max_delay_secs": 99.5},
    )

    assert row["retry_strategy"] == "exponential_backoff"
    assert (row["max_attempts"], row["initial_delay_seconds"], row["multiplier"]) == (7, 1.25, 1.5)
    assert row["max_delay_seconds"] == 99.5


@pytest.mark.parametrize(
    ("expiry", "after_secs"),
    [
        ({}, None),
        ({"expires_after_secs": 90.5}, 90.5),
        ({"expires_at": "2030-01-01T01:00:00.25+00:00"}, 3600.25),
        ({"expires_at": "2030-01-01T02:00:00+01:00", "expires_after_secs": 7200}, 3600),
        ({"expires_at": "2030-01-01T01:00:00Z", "expires_after_secs": 60}, 60),
        ({"expires_after_secs": 1e300}, None),
        ({"expires_at": "2030-01-01T01:00:00Z", "expires_after_secs": 1e300}, 3600),
    ],
)
async def test_the_earlier_expiry_is_shown(
    scenario: Scenario, expiry: dict[str, Any], after_secs: float | None
) -> None:
    row = await fail_one(scenario, retry=fixed_retry(**expiry))

    created_at = scenario.clock.now()
    assert row["expires_at"] == (None if after_secs is None else created_at + timedelta(seconds=after_secs))


async def test_a_task_without_payload_and_metadata(scenario: Scenario) -> None:
    row = await fail_one(scenario)

    assert row["retry_context"] == {"payload": None, "metadata": None}


async def test_the_view_is_read_through_an_index(scenario: Scenario) -> None:
    if isinstance(scenario.store, SqliteStore):
        plan = await scenario.query("EXPLAIN QUERY PLAN SELECT * FROM retry_schedules")
        text = "\n".join(row["detail"] for row in plan)
    else:
        # The writing connections walk indexes wherever there is one.
        plan = await scenario.store.write(lambda session: session.query("EXPLAIN SELECT * FROM retry_schedules", []))
        text = "\n".join(row["QUERY PLAN"] for row in plan)

    assert "task_retried" in text
    assert "batch_failed" in text


async def test_moments_in_a_file_compare_with_those_of_sqlite(clock: VirtualClock, tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    scenario = Scenario(SqliteDatabase(path), clock, StoreOptions("here"))
    await scenario.open()
    await fail_one(scenario)
    await scenario.close()
    # As anybody would open it, without our functions.
    connection = sqlite3.connect(path)
    found = connection.execute(
        "SELECT scheduled_at, created_at, scheduled_at > datetime('now', '-100 years'),"
        " scheduled_at < datetime('now', '+100 years'), datetime(scheduled_at) FROM retry_schedules"
    ).fetchall()
    connection.close()

    assert found == [("2030-01-01 00:00:10.000", "2030-01-01 00:00:00.000", 1, 1, "2030-01-01 00:00:10")]
