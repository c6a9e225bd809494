"""Pause is a flag over the live state: resume returns to exactly where the task was, and propagation does not care."""

from __future__ import annotations

import pytest

from perdure.domain.errors import Conflict
from perdure.domain.states import LIVE, Status
from tests.store.drafts import a_task, at_most, fixed_retry
from tests.store.scenario import Scenario
from tests.store.states import one_in_each_state

LIVE_STATES = [status.value for status in Status if status in LIVE]


async def test_resume_returns_every_live_task_to_exactly_where_it_was(scenario: Scenario) -> None:
    await one_in_each_state(scenario)
    before = {key: await scenario.task(key) for key in LIVE_STATES}

    await scenario.pause(*LIVE_STATES)
    for key in LIVE_STATES:
        assert (await scenario.task(key)).paused
        assert (await scenario.task(key)).status is before[key].status
    await scenario.resume(*LIVE_STATES)

    for key in LIVE_STATES:
        assert await scenario.task(key) == before[key]
        assert await scenario.moves(key) == [*(await scenario.moves(key))[:-2], (key, "paused"), ("paused", key)]


async def test_pausing_twice_or_resuming_what_is_not_paused_is_refused(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))

    with pytest.raises(Conflict, match="The task is not paused; it is Pending"):
        await scenario.resume("task")
    await scenario.pause("task")
    with pytest.raises(Conflict, match="The task is already paused; it is Paused") as refused:
        await scenario.pause("task")
    assert refused.value.status_label == "Paused"


async def test_a_paused_task_is_not_claimed(scenario: Scenario) -> None:
    await scenario.submit(a_task("paused"), a_task("other"))
    await scenario.pause("paused")

    assert await scenario.claim() == ["other"]

    await scenario.resume("paused")
    assert await scenario.claim() == ["paused"]


async def test_a_paused_task_hears_of_its_parents(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("good"),
        a_task("bad"),
        a_task("released", after="good"),
        a_task("failed", after="bad"),
        a_task("skipped", after={"good": "on_failure"}),
    )
    await scenario.run("good", "bad")
    await scenario.pause("released", "failed", "skipped")

    await scenario.succeed("good")
    await scenario.fail("bad")

    assert await scenario.statuses("released", "failed", "skipped") == {
        "released": "pending",
        "failed": "failure",
        "skipped": "skipped",
    }
    assert await scenario.claim() == []
    await scenario.resume("released")
    assert await scenario.claim() == ["released"]


async def test_a_paused_running_task_keeps_its_slot_and_does_not_time_out(scenario: Scenario) -> None:
    rules = [at_most(1)]
    await scenario.submit(a_task("running", rules=rules, timeout=30), a_task("behind", rules=rules))
    assert await scenario.claim() == ["running"]
    await scenario.accept("running")
    await scenario.pause("running")

    scenario.clock.advance("1h")

    assert await scenario.time_out() == 0
    assert await scenario.claim() == []
    assert await scenario.status("running") is Status.RUNNING


async def test_progress_of_a_paused_task_does_not_start_its_timeout(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", timeout=30))
    await scenario.run("task")
    await scenario.pause("task")

    await scenario.count("task", success=1)
    await scenario.edit("task", new_success=1)
    scenario.clock.advance("1h")

    assert await scenario.time_out() == 0
    assert (await scenario.task("task")).success == 2


async def test_the_timeout_starts_afresh_with_resume(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", timeout=30))
    await scenario.run("task")
    scenario.clock.advance(20)
    await scenario.pause("task")
    scenario.clock.advance("1h")
    await scenario.resume("task")

    scenario.clock.advance(29)
    assert await scenario.time_out() == 0
    scenario.clock.advance(1)
    assert await scenario.time_out() == 1


async def test_a_task_that_was_paused_while_claimed_runs_without_a_timeout(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", timeout=30))
    await scenario.claim()
    await scenario.pause("task")

    await scenario.accept("task")
    scenario.clock.advance("1h")
    assert await scenario.time_out() == 0

    await scenario.resume("task")
    scenario.clock.advance(30)
    assert await scenario.time_out() == 1


@pytest.mark.parametrize("state", ["claimed", "running"])
async def test_the_result_of_a_paused_task_is_accepted(scenario: Scenario, state: str) -> None:
    await scenario.submit(a_task("parent"), a_task("child", after="parent"))
    await scenario.claim()
    if state == "running":
        await scenario.accept("parent")
    await scenario.pause("parent")

    await scenario.succeed("parent")

    assert await scenario.statuses() == {"parent": "success", "child": "pending"}
    assert not (await scenario.task("parent")).paused


async def test_a_paused_claim_that_runs_out_waits_for_resume(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.claim()
    await scenario.pause("task")
    scenario.clock.advance("1h")

    assert await scenario.reap() == 1

    assert (await scenario.status("task"), await scenario.claim()) == (Status.PENDING, [])
    await scenario.resume("task")
    assert await scenario.claim() == ["task"]


async def test_a_retry_does_not_start_while_it_is_paused(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", retry=fixed_retry(delay_secs=10)))
    await scenario.run("task")
    await scenario.fail("task")
    due_at = (await scenario.task("task")).next_retry_at
    await scenario.pause("task")

    scenario.clock.advance("1h")
    assert await scenario.release_due() == 0

    scenario.committed.clear()
    await scenario.resume("task")
    assert (await scenario.task("task")).next_retry_at == due_at
    # Whoever waits for due retries hears of it.
    assert [switched.shown_now for switched in scenario.committed[-1].switched] == ["retry_pending"]
    assert await scenario.release_due() == 1


async def test_a_failure_of_a_paused_task_is_retried_after_resume(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", retry=fixed_retry(delay_secs=0)))
    await scenario.run("task")
    await scenario.pause("task")

    await scenario.fail("task")

    assert await scenario.status("task") is Status.RETRY_PENDING
    assert await scenario.release_due() == 0
    await scenario.resume("task")
    assert await scenario.release_due() == 1


async def test_a_paused_task_is_canceled_for_good(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.pause("task")

    await scenario.cancel("task")

    task = await scenario.task("task")
    assert (task.status, task.paused) == (Status.CANCELED, False)


async def test_a_delay_passes_while_a_task_is_paused(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", delay=60))
    await scenario.pause("task")
    scenario.clock.advance(60)
    await scenario.release_due()

    assert await scenario.claim() == []
    await scenario.resume("task")
    assert await scenario.claim() == ["task"]
