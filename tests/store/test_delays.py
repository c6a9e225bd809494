"""Tasks that may not start before a moment, and the moment at which the next thing is due."""

from __future__ import annotations

from datetime import timedelta

from perdure.domain.states import Status
from perdure.store.verbs.time import next_due
from tests.store.drafts import a_task, fixed_retry
from tests.store.scenario import Scenario


async def test_a_delayed_task_is_claimable_from_its_moment_on(scenario: Scenario) -> None:
    await scenario.submit(a_task("delayed", delay="1m"), a_task("at", run_at="2030-01-01T00:02:00Z"), a_task("now"))
    assert await scenario.claim() == ["now"]

    scenario.clock.advance(59.999)
    assert await scenario.release_due() == 0
    scenario.clock.advance(0.001)
    assert await scenario.release_due() == 1
    assert await scenario.claim() == ["delayed"]

    scenario.clock.advance(60)
    await scenario.release_due()
    assert await scenario.claim() == ["at"]


async def test_a_moment_that_has_passed_is_no_delay(scenario: Scenario) -> None:
    await scenario.submit(a_task("past", run_at="2020-01-01T00:00:00Z"), a_task("zero", delay=0))

    assert await scenario.claim() == ["past", "zero"]


async def test_a_delayed_child_waits_for_both(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("parent"), a_task("late", after="parent", delay=60), a_task("early", after="parent", delay=10)
    )
    scenario.clock.advance(10)
    assert await scenario.release_due() == 0
    await scenario.run("parent")
    scenario.committed.clear()
    await scenario.succeed("parent")

    assert await scenario.statuses("late", "early") == {"late": "pending", "early": "pending"}
    # Whoever waits for what is due is told that the early one is.
    assert scenario.committed[-1].due_at == (await scenario.task("early")).run_at
    assert await scenario.claim() == []
    await scenario.release_due()
    assert await scenario.claim() == ["early"]
    scenario.clock.advance(50)
    await scenario.release_due()
    assert await scenario.claim() == ["late"]


async def test_a_delayed_task_can_be_canceled(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", delay=60))

    await scenario.cancel("task")
    scenario.clock.advance(60)

    assert await scenario.release_due() == 0
    assert await scenario.status("task") is Status.CANCELED


async def test_what_is_due_is_released_a_few_at_a_time(scenario: Scenario) -> None:
    await scenario.submit(*[a_task(str(number), delay=number + 1) for number in range(5)])
    scenario.clock.advance(60)

    assert await scenario.release_due(most=2) == 2
    assert await scenario.claim() == ["0", "1"]


async def test_the_next_moment_is_the_earliest_of_delays_and_retries(scenario: Scenario) -> None:
    began = scenario.clock.now()
    assert await scenario.store.read(next_due) is None

    await scenario.submit(a_task("delayed", delay=60), a_task("retried", retry=fixed_retry(delay_secs=30)))
    assert await scenario.store.read(next_due) == began + timedelta(seconds=60)

    await scenario.run("retried")
    await scenario.fail("retried")
    assert await scenario.store.read(next_due) == began + timedelta(seconds=30)

    await scenario.pause("retried")
    assert await scenario.store.read(next_due) == began + timedelta(seconds=60)
