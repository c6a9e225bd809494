"""The view `retry_schedules` shows batches that are run again as a whole, beside tasks."""

from __future__ import annotations

from datetime import timedelta

from perdure.domain.model import ErrorClass
from tests.store.drafts import a_task, broken, fixed_retry
from tests.store.retry_rows import COLUMNS, execution_loop, retry_row, retry_rows
from tests.store.scenario import Scenario


async def run_newest(scenario: Scenario, *, ends_well: bool) -> None:
    """Run the only task that can be run, whatever its id."""
    (row,) = (await scenario.claim_rows()).to_start
    scenario.ids["now"] = row["id"]
    await scenario.accept("now")
    await (scenario.succeed("now") if ends_well else scenario.fail("now"))


async def test_a_batch_from_its_first_failure_to_its_end(scenario: Scenario) -> None:
    began = scenario.clock.now()
    loop = execution_loop(scenario)
    batch_id = await scenario.submit(a_task("a"), retry=fixed_retry(60, 2), context={"day": 1})
    assert await retry_rows(scenario) == {}

    await run_newest(scenario, ends_well=False)
    await loop.run_once()
    failed = await retry_row(scenario, batch_id)
    assert list(failed) == COLUMNS
    assert failed == {
        **failed,
        "id": batch_id,
        "retry_type": "execution",
        "target_id": batch_id,
        "execution_id": batch_id,
        "node_id": None,
        "retry_strategy": "fixed_delay",
        "max_attempts": 2,
        "current_attempt": 0,
        "delay_seconds": 60,
        "scheduled_at": began + timedelta(seconds=60),
        "last_retried_at": None,
        "status": "scheduled",
        "locked_by": None,
        "locked_at": None,
        "retry_context": {"context": {"day": 1}},
        "created_at": began,
    }
    assert [(error["attempt"], error["error"]) for error in failed["error_history"]] == [(0, "task a: it broke")]

    launched_at = scenario.clock.advance(60)
    await loop.run_once()
    retrying = await retry_row(scenario, batch_id)
    assert (retrying["status"], retrying["current_attempt"]) == ("retrying", 1)
    assert retrying["scheduled_at"] == retrying["last_retried_at"] == launched_at

    await run_newest(scenario, ends_well=True)
    await loop.run_once()
    rows = await retry_rows(scenario)
    assert list(rows) == [batch_id], "a repetition has no row of its own"
    assert rows[batch_id]["status"] == "completed"
    assert failed["version"] < retrying["version"] < rows[batch_id]["version"]


async def test_a_batch_that_failed_for_good(scenario: Scenario) -> None:
    batch_id = await scenario.submit(a_task("a"), retry=fixed_retry())
    await scenario.run("a")
    await scenario.fail("a", failure=broken(error_class=ErrorClass.FINAL))
    await execution_loop(scenario).run_once()
    row = await retry_row(scenario, batch_id)

    assert row["status"] == "failed"
    assert row["scheduled_at"] == row["updated_at"]
    assert row["retry_context"] == {"context": None}


async def test_a_batch_that_was_stopped_before_its_repetition(scenario: Scenario) -> None:
    batch_id = await scenario.submit(a_task("a"), retry=fixed_retry())
    await scenario.run("a")
    await scenario.fail("a")
    await execution_loop(scenario).run_once()
    await scenario.stop(batch_id)

    assert (await retry_row(scenario, batch_id))["status"] == "cancelled"


async def test_a_batch_whose_task_is_retried_by_hand_runs_again(scenario: Scenario) -> None:
    batch_id = await scenario.submit(a_task("a"), retry=fixed_retry())
    await scenario.run("a")
    await scenario.fail("a")
    await execution_loop(scenario).run_once()
    await scenario.retry("a")

    assert (await retry_row(scenario, batch_id))["status"] == "retrying"


async def test_a_policy_that_is_switched_off_is_none(scenario: Scenario) -> None:
    await scenario.submit(a_task("a"), retry={**fixed_retry(), "enabled": False})
    await scenario.run("a")
    await scenario.fail("a")
    await execution_loop(scenario).run_once()

    assert await retry_rows(scenario) == {}
