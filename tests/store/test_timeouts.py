"""A running task that gives no sign of life for its timeout has failed."""

from __future__ import annotations

from perdure.domain.states import Status
from tests.store.drafts import a_call, a_task, fixed_retry
from tests.store.scenario import Scenario


async def test_silence_is_a_failure(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", timeout=30), a_task("child", after="task"))
    await scenario.run("task")

    scenario.clock.advance(29.999)
    assert await scenario.time_out() == 0
    scenario.clock.advance(0.001)
    assert await scenario.time_out() == 1

    task = await scenario.task("task")
    assert (task.status, task.failure_reason, task.error_class) == (Status.FAILURE, "Timeout", "retryable")
    assert await scenario.status("child") is Status.FAILURE
    (attempt,) = await scenario.attempts("task")
    assert (attempt["trigger"], attempt["outcome"]) == ("timeout", "failure")


async def test_the_time_in_a_queue_or_a_claim_does_not_count(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", timeout=30))
    scenario.clock.advance(100)
    await scenario.claim()
    scenario.clock.advance(50)

    assert await scenario.time_out() == 0

    await scenario.accept("task")
    scenario.clock.advance(29)
    assert await scenario.time_out() == 0


async def test_a_timeout_is_retried_by_policy(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", timeout=30, retry=fixed_retry(delay_secs=5)), a_task("child", after="task"))
    await scenario.run("task")
    scenario.clock.advance(30)

    await scenario.time_out()

    assert await scenario.statuses() == {"task": "retry_pending", "child": "waiting"}
    scenario.clock.advance(5)
    await scenario.release_due()
    await scenario.run("task")
    scenario.clock.advance(29)
    assert await scenario.time_out() == 0


async def test_the_other_side_is_told_to_stop(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("task", timeout=30, retry=fixed_retry(0, 1), on_cancel=[a_call("stop")], on_failure=[a_call("failed")])
    )
    await scenario.run("task")
    scenario.clock.advance(30)
    await scenario.time_out()
    assert await scenario.hooks("task") == ["cancel:0"]

    await scenario.release_due()
    await scenario.run("task")
    scenario.clock.advance(30)
    await scenario.time_out()

    assert await scenario.hooks("task") == ["cancel:0", "cancel:1", "failure:1"]


async def test_that_can_be_switched_off(scenario: Scenario) -> None:
    quiet = await scenario.another(cancel_on_timeout=False)
    await scenario.submit(a_task("task", timeout=30, on_cancel=[a_call("stop")]))
    await scenario.run("task")
    scenario.clock.advance(30)

    await quiet.time_out()

    assert await scenario.status("task") is Status.FAILURE
    assert await scenario.hooks("task") == []


async def test_the_longest_silent_come_first(scenario: Scenario) -> None:
    for key in ("first", "second", "third"):
        await scenario.submit(a_task(key, timeout=30))
        await scenario.run(key)
        scenario.clock.advance(1)
    scenario.clock.advance(60)

    assert await scenario.time_out(most=2) == 2

    assert await scenario.statuses() == {"first": "failure", "second": "failure", "third": "running"}
