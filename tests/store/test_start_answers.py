"""What the answer to on_start means for the task, and what it no longer means when it comes late."""

from __future__ import annotations

import json

import pytest

from perdure.domain.errors import NotRunning
from perdure.domain.model import ErrorClass, Failure, FailureTrigger
from perdure.domain.states import Status
from tests.store.drafts import a_call, a_task, broken, fixed_retry
from tests.store.scenario import LEASE, Scenario

CANCEL = '{"url": "https://receiver.example/cancel/7", "verb": "Delete"}'


def refused(status: int = 500) -> Failure:
    return Failure(FailureTrigger.WEBHOOK_FAILURE, ErrorClass.RETRYABLE, f"HTTP {status}", http_status=status)


async def _ledger(scenario: Scenario, key: str = "task") -> list[tuple[str, int | None, str | None]]:
    rows = await scenario.deliveries(key)
    return [(row["status"], row["last_status"], row["last_error"]) for row in rows if row["trigger"] == "start"]


async def test_accepted_means_running(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.claim()
    scenario.clock.advance(2)

    await scenario.accept("task")

    task = await scenario.task("task")
    assert (task.status, task.last_updated) == (Status.RUNNING, scenario.clock.now())
    assert await _ledger(scenario) == [("success", 200, None)]
    assert await scenario.column("task", "lease_until") is None


async def test_the_answer_may_be_the_result(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", completion="response"), a_task("child", after="task"))
    await scenario.claim()

    await scenario.finish("task", '{"rows": 3}')

    task = await scenario.task("task")
    assert (task.status, json.loads(task.result or "")) == (Status.SUCCESS, {"rows": 3})
    assert await scenario.status("child") is Status.PENDING
    assert await scenario.moves("task") == [("pending", "claimed"), ("claimed", "success")]


async def test_refused_is_a_failure(scenario: Scenario) -> None:
    await scenario.submit(a_task("final"), a_task("retried", retry=fixed_retry()))
    await scenario.claim()

    await scenario.refuse("final", refused())
    await scenario.refuse("retried", refused(503))

    assert await scenario.statuses() == {"final": "failure", "retried": "retry_pending"}
    assert await _ledger(scenario, "final") == [("failure", 500, "HTTP 500")]
    (attempt,) = await scenario.attempts("retried")
    assert (attempt["trigger"], attempt["http_status"]) == ("webhook_failure", 503)


async def test_answers_of_every_kind_in_one_transaction(scenario: Scenario) -> None:
    await scenario.submit(a_task("accepted"), a_task("finished"), a_task("refused"), a_task("child", after="refused"))
    await scenario.claim()
    answers = [
        await scenario.answered("accepted"),
        await scenario.answered("finished", finished=True),
        await scenario.answered("refused", failure=refused()),
    ]

    await scenario.answer(*answers)

    assert await scenario.statuses() == {
        "accepted": "running",
        "finished": "success",
        "refused": "failure",
        "child": "failure",
    }


@pytest.mark.parametrize("answer", ["accept", "refuse", "finish"])
@pytest.mark.parametrize("result", ["succeed", "fail"])
async def test_a_result_reported_from_inside_the_call_is_not_overwritten(
    scenario: Scenario, result: str, answer: str
) -> None:
    await scenario.submit(a_task("task"))
    await scenario.claim()
    await getattr(scenario, result)("task")
    before = await scenario.task("task")

    if answer == "refuse":
        await scenario.refuse("task", refused())
    else:
        await getattr(scenario, answer)("task")

    assert await scenario.task("task") == before
    assert len(await scenario.attempts("task")) == 1


async def test_a_retry_decided_while_the_call_was_under_way_is_not_overwritten(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", retry=fixed_retry()))
    await scenario.claim()
    await scenario.fail("task")

    await scenario.accept("task", attempt=0)
    await scenario.refuse("task", refused(), attempt=0)

    assert await scenario.status("task") is Status.RETRY_PENDING
    assert (await scenario.task("task")).attempt == 1


async def test_the_refusal_of_an_instance_that_lost_its_claim_does_not_fail_the_task(scenario: Scenario) -> None:
    """It is slow, another one took over: the row of the ledger is no longer its own."""
    other = await scenario.another()
    await scenario.submit(a_task("claimed"), a_task("running"))
    await scenario.claim()
    scenario.clock.advance(LEASE.total_seconds())
    await other.reap()
    await other.claim()
    await other.accept("running")

    await scenario.refuse("claimed", refused())
    await scenario.refuse("running", refused())

    assert await scenario.statuses() == {"claimed": "claimed", "running": "running"}
    assert await _ledger(scenario, "claimed") == [("pending", None, None)]
    assert await _ledger(scenario, "running") == [("success", 200, None)]
    await other.accept("claimed")
    assert await scenario.status("claimed") is Status.RUNNING


async def test_the_acceptance_of_an_instance_that_lost_its_claim_counts(scenario: Scenario) -> None:
    other = await scenario.another()
    await scenario.submit(a_task("task"))
    await scenario.claim()
    scenario.clock.advance(LEASE.total_seconds())
    await other.reap()
    await other.claim()

    await scenario.accept("task")

    assert await scenario.status("task") is Status.RUNNING


async def test_a_result_that_comes_when_nobody_holds_the_task_is_asked_for_again(scenario: Scenario) -> None:
    """Only the answer itself carries the result: a start that counts as received would leave the task without one."""
    other = await scenario.another()
    await scenario.submit(a_task("task", completion="response"))
    await scenario.claim()
    scenario.clock.advance(LEASE.total_seconds())
    await other.reap()

    await scenario.finish("task", '"lost"')
    assert await scenario.status("task") is Status.PENDING

    assert await other.claim() == ["task"]
    await other.finish("task", '"found"')
    assert (await scenario.task("task")).result == '"found"'


async def test_the_receiver_says_how_it_wants_to_be_canceled(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.claim()
    await scenario.accept("task", cancel_params=CANCEL)

    await scenario.cancel("task")

    assert await scenario.hooks("task") == ["cancel:0"]
    (row,) = await scenario.query("SELECT params FROM webhook_execution WHERE trigger = 'cancel'")
    assert json.loads(row["params"]) == json.loads(CANCEL)


async def test_how_to_cancel_is_known_for_one_attempt_only(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", on_cancel=[a_call("own")], retry=fixed_retry()))
    for attempt in range(3):
        await scenario.claim()
        if attempt < 2:
            await scenario.accept("task", cancel_params=f'{{"url": "https://a.example/{attempt}", "verb": "Post"}}')
            await scenario.fail("task")
            scenario.clock.advance(10)
            await scenario.release_due()

    await scenario.cancel("task")

    rows = await scenario.query("SELECT params FROM webhook_execution WHERE trigger = 'cancel'")
    assert [json.loads(row["params"])["url"] for row in rows] == ["https://receiver.example/own"]
    assert (await scenario.task("task")).actions.count("Cancel") == 2


async def test_an_attempt_has_one_way_to_be_canceled(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.claim()
    await scenario.accept("task", cancel_params='{"url": "https://a.example/first", "verb": "Post"}')
    await scenario.fail("task")
    await scenario.retry("task")
    await scenario.claim()
    await scenario.accept("task", cancel_params=CANCEL)

    await scenario.cancel("task")

    (row,) = await scenario.query("SELECT params, idempotency_key FROM webhook_execution WHERE trigger = 'cancel'")
    assert json.loads(row["params"]) == json.loads(CANCEL)
    assert row["idempotency_key"].endswith(":cancel:1")


async def test_it_comes_after_the_cancel_actions_of_the_task(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", on_cancel=[a_call("one"), a_call("two")]))
    await scenario.claim()
    await scenario.accept("task", cancel_params=CANCEL)

    await scenario.cancel("task")

    assert await scenario.hooks("task") == ["cancel:0", "cancel:0:1", "cancel:0:2"]


async def test_who_was_canceled_while_the_call_was_under_way_is_told_when_it_answers(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", on_cancel=[a_call("own")]))
    await scenario.claim()
    await scenario.cancel("task")
    assert await scenario.hooks("task") == ["cancel:0"]

    await scenario.accept("task", cancel_params=CANCEL)

    assert await scenario.hooks("task") == ["cancel:0", "cancel:0:1"]
    assert await scenario.status("task") is Status.CANCELED


async def test_an_answer_that_is_recorded_twice_tells_once(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.claim()
    await scenario.cancel("task")

    await scenario.accept("task", cancel_params=CANCEL)
    await scenario.accept("task", cancel_params=CANCEL)

    assert await scenario.hooks("task") == ["cancel:0"]


async def test_how_to_cancel_is_not_remembered_for_a_task_that_has_ended(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.claim()
    await scenario.succeed("task")
    before = await scenario.column("task", "actions")

    await scenario.accept("task", cancel_params=CANCEL)

    assert await scenario.column("task", "actions") == before
    assert await scenario.hooks("task") == []


async def test_a_canceled_task_takes_no_result(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.claim()
    await scenario.cancel("task")

    await scenario.finish("task", '"done"')
    with pytest.raises(NotRunning, match="Canceled"):
        await scenario.fail("task", failure=broken())

    assert await scenario.status("task") is Status.CANCELED
