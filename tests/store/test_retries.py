"""A failure that a policy retries: RetryPending, due, Pending, and on with the next attempt."""

from __future__ import annotations

from datetime import timedelta

from perdure.domain.model import ErrorClass, Failure, FailureTrigger
from perdure.domain.states import Status
from tests.store.drafts import a_call, a_task, broken, fixed_retry
from tests.store.scenario import Scenario


async def _run_again(scenario: Scenario, key: str = "task") -> None:
    scenario.clock.advance("1h")
    await scenario.release_due()
    await scenario.run(key)


async def test_a_retry_is_scheduled_with_the_failure(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", retry=fixed_retry(delay_secs=10)))
    await scenario.run("task")

    await scenario.fail("task", failure=broken("no answer", code="read_timeout"))

    task = await scenario.task("task")
    assert (task.status, task.attempt, task.retry_count) == (Status.RETRY_PENDING, 1, 1)
    assert task.next_retry_at == scenario.clock.now() + timedelta(seconds=10)
    assert (task.failure_reason, task.error_class, task.locked_by) == ("no answer", "retryable", None)
    assert scenario.committed[-1].due_at == task.next_retry_at


async def test_it_starts_when_it_is_due(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", retry=fixed_retry(delay_secs=10)))
    await scenario.run("task")
    await scenario.fail("task")

    scenario.clock.advance(9.999)
    assert await scenario.release_due() == 0
    assert await scenario.claim() == []
    scenario.clock.advance(0.201)
    assert await scenario.release_due() == 1
    assert scenario.committed[-1].lateness == [0.2]
    assert await scenario.claim() == ["task"]


async def test_the_next_attempt_begins_with_a_clean_slate(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", retry=fixed_retry(delay_secs=10)))
    await scenario.run("task")
    created_at = (await scenario.task("task")).created_at
    await scenario.count("task", success=3)
    await scenario.fail("task")
    scenario.clock.advance(10)

    await scenario.release_due()

    task = await scenario.task("task")
    assert task.status is Status.PENDING
    assert (task.started_at, task.ended_at, task.failure_reason, task.next_retry_at) == (None, None, None, None)
    assert (task.last_updated, task.created_at) == (scenario.clock.now(), created_at)
    assert (task.attempt, task.retry_count, task.success) == (1, 1, 3)


async def test_each_attempt_has_a_key_of_its_own(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", retry=fixed_retry(delay_secs=0)))
    for _ in range(3):
        await scenario.release_due()
        await scenario.run("task")
        await scenario.fail("task")

    keys = [row["idempotency_key"].partition(":")[2] for row in await scenario.deliveries("task")]
    assert sorted(keys) == ["start:0", "start:1", "start:2"]


async def test_the_budget_is_spent_and_then_the_failure_is_final(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("task", retry=fixed_retry(max_retries=2), on_failure=[a_call("failed")], on_success=[a_call("done")]),
        a_task("child", after="task"),
    )
    await scenario.run("task")
    for attempt in range(2):
        await scenario.fail("task", attempt=attempt)
        assert await scenario.statuses() == {"task": "retry_pending", "child": "waiting"}
        assert await scenario.hooks("task") == []
        await _run_again(scenario)

    await scenario.fail("task", attempt=2, failure=broken("for good"))

    task = await scenario.task("task")
    assert (task.status, task.attempt, task.retry_count, task.failure_reason) == (Status.FAILURE, 2, 2, "for good")
    assert await scenario.status("child") is Status.FAILURE
    assert await scenario.hooks("task") == ["failure:2"]
    assert scenario.committed[-1].counts["retry_exhausted", ""] == 1


async def test_a_success_clears_the_schedule_and_keeps_the_history(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("task", retry=fixed_retry(), on_success=[a_call("done")]), a_task("child", after="task")
    )
    await scenario.run("task")
    await scenario.fail("task")
    await _run_again(scenario)

    await scenario.succeed("task")

    task = await scenario.task("task")
    assert (task.status, task.next_retry_at, task.failure_reason, task.error_class) == (
        Status.SUCCESS,
        None,
        None,
        None,
    )
    assert await scenario.status("child") is Status.PENDING
    assert await scenario.hooks("task") == ["success:1"]
    assert [row["outcome"] for row in await scenario.attempts("task")] == ["failure", "success"]


async def test_a_wait_that_was_asked_for_is_not_charged(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", retry=fixed_retry(delay_secs=1, max_retries=1)))
    await scenario.run("task")
    for attempt in range(3):
        await scenario.fail("task", failure=broken("busy", ErrorClass.RATE_LIMITED, retry_after_secs=60))
        task = await scenario.task("task")
        assert (task.status, task.attempt, task.retry_count) == (Status.RETRY_PENDING, attempt + 1, 0)
        assert await scenario.column("task", "free_waits") == attempt + 1
        await _run_again(scenario)

    await scenario.fail("task")
    assert (await scenario.task("task")).retry_count == 1


async def test_a_lost_worker_is_counted_apart(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", retry=fixed_retry(max_retries=1)))
    await scenario.run("task")

    await scenario.fail("task", failure=Failure(FailureTrigger.WORKER_LOST, ErrorClass.RETRYABLE, "gone"))

    assert (await scenario.task("task")).retry_count == 0
    assert [await scenario.column("task", name) for name in ("worker_losses", "free_waits")] == [1, 0]
    assert [row["outcome"] for row in await scenario.attempts("task")] == ["lost"]


async def test_without_a_policy_the_first_failure_is_final(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.run("task")

    await scenario.fail("task")

    assert await scenario.status("task") is Status.FAILURE


async def test_cancel_while_it_waits_is_definitive(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", retry=fixed_retry(), on_cancel=[a_call("stop")]))
    await scenario.run("task")
    await scenario.fail("task")

    await scenario.cancel("task")
    scenario.clock.advance("1d")

    assert await scenario.release_due() == 0
    assert await scenario.status("task") is Status.CANCELED
    # Nobody works on it: there is nobody to tell.
    assert await scenario.hooks("task") == []


async def test_an_exhausted_task_may_be_parked_for_a_human(scenario: Scenario) -> None:
    policy = fixed_retry(delay_secs=0, max_retries=1, on_exhausted="pause")
    await scenario.submit(a_task("task", retry=policy, on_failure=[a_call("failed")]), a_task("child", after="task"))
    for _ in range(2):
        await scenario.release_due()
        await scenario.run("task")
        await scenario.fail("task")

    task = await scenario.task("task")
    assert (task.status, task.paused, task.parked, task.attempt) == (Status.RETRY_PENDING, True, True, 1)
    assert await scenario.status("child") is Status.WAITING
    assert await scenario.hooks("task") == []
    scenario.clock.advance("1d")
    assert await scenario.release_due() == 0

    await scenario.resume("task")
    task = await scenario.task("task")
    assert (task.status, task.paused, task.parked, task.attempt, task.retry_count) == (
        Status.PENDING,
        False,
        False,
        2,
        0,
    )


async def test_many_failures_are_settled_in_one_transaction(scenario: Scenario) -> None:
    keys = [str(number) for number in range(50)]
    await scenario.submit(*[a_task(key, retry=fixed_retry() if int(key) % 2 else None) for key in keys])
    await scenario.run(*keys)
    names: list[str] = []
    scenario.store.on_query(lambda name, _: names.append(name))

    await scenario.fail(*keys)

    assert sorted((await scenario.statuses()).values()) == ["failure"] * 25 + ["retry_pending"] * 25
    assert (names.count("fail"), names.count("schedule_retry")) == (1, 1)
