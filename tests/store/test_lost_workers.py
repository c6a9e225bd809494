"""A worker that shows no life for the length of its lease has lost what it ran; the tasks are tried elsewhere."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pytest

from perdure.domain.errors import NotRunning, StaleAttempt
from perdure.domain.policy import RetryLimits
from perdure.domain.states import Status
from perdure.store.changes import Row
from perdure.store.interface import Session
from perdure.store.verbs.work import lose_workers
from tests.store.drafts import a_task, at_most, fixed_retry
from tests.store.scenario import LEASE, Scenario
from tests.store.working import Working


@pytest.fixture
def worker(scenario: Scenario) -> Working:
    return Working(scenario)


async def test_a_task_is_lost_when_its_lease_has_run_out(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(
        a_task("task", worker=True, timeout=3600, retry=fixed_retry(10)), a_task("child", after="task")
    )
    await worker.begin()

    scenario.clock.advance(59.999)
    assert await worker.lose() == []
    scenario.clock.advance(0.001)
    assert await worker.lose() == ["task"]
    assert await worker.lose() == []

    task = await scenario.task("task")
    assert (task.status, task.attempt, task.retry_count) == (Status.RETRY_PENDING, 1, 0)
    assert task.locked_by is None
    assert await scenario.status("child") is Status.WAITING
    (attempt,) = await scenario.attempts("task")
    assert (attempt["outcome"], attempt["trigger"], attempt["charged"]) == ("lost", "worker_lost", False)
    assert (attempt["instance"], attempt["message"]) == ("here", "The worker was lost")


async def test_webhook_tasks_have_no_worker_to_lose(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("running", timeout=86400), a_task("claimed"))
    await scenario.run("running")
    await scenario.claim()
    scenario.clock.advance("1h")

    assert await worker.lose() == []

    assert await scenario.statuses() == {"running": "running", "claimed": "claimed"}


async def test_a_task_of_a_worker_is_not_reaped_like_a_claim(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("task", worker=True, timeout=86400))
    await worker.begin()
    scenario.clock.advance("1h")

    assert await scenario.reap() == 0


async def test_losses_are_free_for_a_while_and_then_they_cost(scenario: Scenario, worker: Working) -> None:
    """The task itself may be what kills its workers."""
    free = RetryLimits().max_worker_losses
    await scenario.submit(a_task("task", worker=True, retry=fixed_retry(0, max_retries=2)))
    counts = []
    for _ in range(free + 3):
        await scenario.release_due()
        await worker.begin()
        scenario.clock.advance(LEASE.total_seconds())
        await worker.lose()
        counts.append((await scenario.task("task")).retry_count)

    assert free == 5
    assert counts == [0, 0, 0, 0, 0, 1, 2, 2]
    assert await scenario.status("task") is Status.FAILURE
    attempts = await scenario.attempts("task")
    assert [attempt["charged"] for attempt in attempts] == [False] * 5 + [True] * 2 + [None]
    assert {(attempt["outcome"], attempt["trigger"]) for attempt in attempts} == {("lost", "worker_lost")}


async def test_a_free_loss_does_not_count_as_a_wait_that_was_asked_for(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("task", worker=True, retry=fixed_retry(0)))
    await worker.begin()
    scenario.clock.advance(LEASE.total_seconds())

    await worker.lose()

    assert await scenario.column("task", "worker_losses") == 1
    assert await scenario.column("task", "free_waits") == 0


async def test_without_a_policy_the_task_has_failed(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("task", worker=True), a_task("child", after="task"))
    await worker.begin()
    scenario.clock.advance(LEASE.total_seconds())

    await worker.lose()

    assert await scenario.statuses() == {"task": "failure", "child": "failure"}
    (attempt,) = await scenario.attempts("task")
    assert (attempt["outcome"], attempt["trigger"]) == ("lost", "worker_lost")


async def test_a_late_result_of_a_lost_attempt_is_refused(scenario: Scenario, worker: Working) -> None:
    other = Working(await scenario.another())
    await scenario.submit(a_task("task", worker=True, retry=fixed_retry(0)))
    await worker.begin()
    scenario.clock.advance(LEASE.total_seconds())
    await other.lose()

    early = await worker.round([worker.done("task", 0, '"early"')])
    await scenario.release_due()
    assert await other.begin() == ["task"]
    late = await worker.round([worker.done("task", 0, '"late"')], [worker.failed("task", 0)])
    accepted = await other.round([other.done("task", 1, '"right"')])
    again = await worker.round([worker.done("task", 1, '"twice"')])

    assert [type(problem) for problem in early.refused] == [StaleAttempt]
    assert [type(problem) for problem in late.refused] == [StaleAttempt, StaleAttempt]
    assert accepted.refused == []
    assert [type(problem) for problem in again.refused] == [NotRunning]
    task = await scenario.task("task")
    assert (task.status, task.attempt, task.result) == (Status.SUCCESS, 1, '"right"')
    assert [row["outcome"] for row in await scenario.attempts("task")] == ["lost", "success"]


async def test_the_lease_is_looked_at_again_under_the_lock(postgres_scenario: Scenario) -> None:
    """A renewal that commits between finding a task and locking it saves the task."""
    scenario, worker = postgres_scenario, Working(postgres_scenario)
    await scenario.submit(a_task("task", worker=True, retry=fixed_retry(0)))
    await worker.begin()
    scenario.clock.advance(LEASE.total_seconds())
    found, renewed = asyncio.Event(), asyncio.Event()

    async def lose_late(session: Session) -> list[Row]:
        fetch = session.fetch

        async def fetch_late(name: str, rows: Any = None, /, **parameters: Any) -> list[Row]:
            if name == "lock_tasks":
                found.set()
                await renewed.wait()
            return await fetch(name, rows, **parameters)

        with patch.object(session, "fetch", fetch_late):
            return await lose_workers(session, 10, scenario.decide)

    losing = asyncio.create_task(scenario.store.write(lose_late))
    await found.wait()
    assert await worker.renew(("task", 0)) == ["task"]
    renewed.set()

    assert await losing == []
    assert await scenario.status("task") is Status.RUNNING


async def test_the_ones_who_look_at_once_lose_a_task_once(scenario: Scenario, worker: Working) -> None:
    other = Working(await scenario.another())
    keys = [f"{number:02}" for number in range(20)]
    await scenario.submit(*[a_task(key, worker=True, retry=fixed_retry(60)) for key in keys])
    await worker.begin()
    scenario.clock.advance(LEASE.total_seconds())

    lost = await asyncio.gather(worker.lose(), other.lose(), worker.lose(), other.lose())

    assert sorted(key for one in lost for key in one) == keys
    assert {(await scenario.task(key)).attempt for key in keys} == {1}


async def test_lost_tasks_are_found_a_few_at_a_time_oldest_lease_first(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(*[a_task(key, worker=True, retry=fixed_retry(60)) for key in "abc"])
    for _ in range(3):
        await worker.begin(most=1)
        scenario.clock.advance(1)
    scenario.clock.advance("1h")

    assert [await worker.lose(most=1) for _ in range(4)] == [["a"], ["b"], ["c"], []]


async def test_a_lost_task_leaves_the_slot_of_a_rule(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(*[a_task(key, worker=True, rules=[at_most(1)], retry=fixed_retry(60)) for key in "ab"])
    assert await worker.begin() == ["a"]
    scenario.clock.advance(LEASE.total_seconds())
    await worker.lose()

    assert await worker.begin() == ["b"]


async def test_a_paused_task_that_is_lost_stays_paused(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("task", worker=True, retry=fixed_retry(0)))
    await worker.begin()
    await scenario.pause("task")
    scenario.clock.advance(LEASE.total_seconds())

    assert await worker.lose() == ["task"]

    await scenario.release_due()
    task = await scenario.task("task")
    assert (task.status, task.paused) == (Status.RETRY_PENDING, True)
    await scenario.resume("task")
    await scenario.release_due()
    assert await worker.begin() == ["task"]


async def test_a_parked_policy_waits_for_a_human_when_losses_are_exhausted(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("task", worker=True, retry=fixed_retry(0, max_retries=1, on_exhausted="pause")))
    for _ in range(7):
        await scenario.release_due()
        await worker.begin()
        scenario.clock.advance(LEASE.total_seconds())
        await worker.lose()

    task = await scenario.task("task")
    assert (task.status, task.parked, task.attempt) == (Status.RETRY_PENDING, True, 6)
    assert (await scenario.attempts("task"))[-1]["outcome"] == "lost"
