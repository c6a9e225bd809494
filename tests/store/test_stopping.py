"""Stopping a batch: every live task is canceled in one transaction, and nothing else happens."""

from __future__ import annotations

from typing import Any

from perdure.domain.states import LIVE, Status
from tests.store.drafts import a_call, a_task, fixed_retry
from tests.store.scenario import Scenario
from tests.store.states import STATES, one_in_each_state

REASON = "Batch stopped"


async def test_every_live_task_is_canceled_and_every_ended_one_stays(scenario: Scenario) -> None:
    await one_in_each_state(scenario)
    batches = {(await scenario.task(key)).batch_id for key in STATES}
    reasons = {key: (await scenario.task(key)).failure_reason for key in STATES}

    for batch_id in batches:
        await scenario.stop(batch_id)

    for status in Status:
        task = await scenario.task(status)
        assert task.status is (Status.CANCELED if status in LIVE else status)
        assert task.failure_reason == (REASON if status in LIVE else reasons[status])


async def test_it_says_what_was_canceled_by_the_status_that_people_saw(scenario: Scenario) -> None:
    batch_id = await scenario.submit(
        a_task("running"),
        a_task("done"),
        a_task("retrying", retry=fixed_retry()),
        a_task("waiting", after="running"),
        a_task("paused"),
        a_task("pending"),
    )
    await scenario.run("running", "done", "retrying")
    await scenario.succeed("done")
    await scenario.fail("retrying")
    await scenario.pause("paused")

    stopped = await scenario.stop(batch_id)

    assert stopped.canceled == {"running": 1, "retry_pending": 1, "waiting": 1, "paused": 1, "pending": 1}
    assert stopped.already_terminal == 1


async def test_it_can_be_repeated(scenario: Scenario) -> None:
    batch_id = await scenario.submit(a_task("a"), a_task("b", after="a"))
    await scenario.stop(batch_id)

    again = await scenario.stop(batch_id)

    assert (dict(again.canceled), again.already_terminal) == ({}, 2)


async def test_nothing_propagates(scenario: Scenario) -> None:
    batch_id = await scenario.submit(
        a_task("a", on_failure=[a_call("failed")]),
        a_task("b", after="a", on_failure=[a_call("failed")]),
        a_task("c", after={"a": "on_failure"}),
        a_task("d", after={"a": "always"}),
    )
    await scenario.run("a")

    await scenario.stop(batch_id)

    assert await scenario.statuses() == dict.fromkeys("abcd", "canceled")
    assert [await scenario.hooks(key) for key in "abcd"] == [[], [], [], []]
    assert await scenario.moves("d") == [("waiting", "canceled")]


async def test_running_and_claimed_tasks_are_told_and_others_are_not(scenario: Scenario) -> None:
    told: dict[str, Any] = {"on_cancel": [a_call("stop")]}
    batch_id = await scenario.submit(
        a_task("running", **told), a_task("claimed", **told), a_task("waiting", after="running", **told)
    )
    await scenario.claim()
    await scenario.accept("running")

    await scenario.stop(batch_id)

    assert {key: await scenario.hooks(key) for key in ("running", "claimed", "waiting")} == {
        "running": ["cancel:0"],
        "claimed": ["cancel:0"],
        "waiting": [],
    }


async def test_other_batches_go_on(scenario: Scenario) -> None:
    batch_id = await scenario.submit(a_task("mine"))
    await scenario.submit(a_task("theirs"))

    await scenario.stop(batch_id)

    assert await scenario.statuses() == {"mine": "canceled", "theirs": "pending"}
