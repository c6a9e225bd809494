"""`on_exhausted: pause`: a task whose budget is spent is set aside for a human, and nobody else hears of it."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.domain.errors import Conflict, NotRunning, StaleAttempt
from tests.engine.definitions import on
from tests.retries.story import Story
from tests.support.receiver import Receiver

PARKING: dict[str, Any] = {"strategy": "immediate", "max_retries": 1, "on_exhausted": "pause"}


async def park(story: Story, **members: Any) -> dict[str, str]:
    """A parked task with a child of every condition."""
    ids = await story.run(
        story.job("a", retry=PARKING, on_failure=[story.hook("/failed")], **members),
        story.job("child", "a"),
        story.job("cleanup", on("a", "always")),
        story.job("rescue", on("a", "on_failure")),
    )
    parked = await story.fail_until_exhausted(ids["a"])
    assert parked.parked
    return ids


async def test_a_parked_task_is_shown_as_paused_and_nothing_propagates(
    story: Story, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    ids = await park(story)

    shown = (await story.client.get(f"/task/{ids['a']}")).json
    assert (shown["status"], shown["parked"], shown["paused"]) == ("Paused", True, True)
    assert (shown["attempt"], shown["retry_count"], shown["next_retry_at"]) == (1, 1, None)
    assert shown["failure_reason"] == "it broke"
    assert [entry["attempt"] for entry in shown["error_history"]] == [0, 1]
    await story.at(1_000_000)
    assert await story.statuses(ids) == {"a": "Paused", "child": "Waiting", "cleanup": "Waiting", "rescue": "Waiting"}
    assert receiver.requests_to("/failed") == []
    assert await story.hooks(ids["a"]) == []
    assert "retries are exhausted; the task is parked for a human" in caplog.messages
    assert story.metric("task_retry_exhausted_total") == 1
    assert [row["id"] for row in (await story.client.get("/task", status="Paused")).json] == [ids["a"]]


@pytest.mark.parametrize("command", ["resume", "retry"])
async def test_resume_and_retry_start_a_new_attempt_with_a_fresh_budget(story: Story, command: str) -> None:
    ids = await park(story)
    await (story.commands.resume if command == "resume" else story.commands.retry)(ids["a"])

    again = await story.task(ids["a"])
    assert (again.status.label, again.attempt, again.retry_count) == ("Pending", 2, 0)
    assert (again.parked, again.paused, again.failure_reason) == (False, False, None)
    await story.start()
    await story.fail(ids["a"])
    assert (await story.progress(ids["a"]))[:3] == ("RetryPending", 3, 1)
    await story.work()
    await story.report(ids["a"])
    await story.finish([ids["child"], ids["cleanup"]])

    assert await story.statuses(ids) == {
        "a": "Success",
        "child": "Success",
        "cleanup": "Success",
        "rescue": "Skipped",
    }
    assert story.starts("a") == [f"start:{attempt}" for attempt in range(4)]
    assert [row["delay_source"] for row in await story.attempts(ids["a"])] == ["immediate", "manual", "immediate", None]


async def test_a_task_can_be_parked_again_and_again(story: Story) -> None:
    ids = await park(story)

    for attempt in (3, 5):
        await story.commands.resume(ids["a"])
        await story.start()
        parked = await story.fail_until_exhausted(ids["a"])
        assert (parked.parked, parked.attempt, parked.retry_count) == (True, attempt, 1)


async def test_a_parked_task_can_be_canceled(story: Story, receiver: Receiver) -> None:
    ids = await park(story, on_cancel=[story.hook("/stop")])

    await story.commands.cancel(ids["a"])
    await story.deliver()

    assert await story.statuses(ids) == {
        "a": "Canceled",
        "child": "Failure",
        "cleanup": "Pending",
        "rescue": "Pending",
    }
    assert not (await story.task(ids["a"])).parked
    # Its last attempt is over and nobody works on it.
    assert receiver.requests_to("/stop") == []
    assert [row["outcome"] for row in await story.attempts(ids["a"])] == ["failure", "failure"]


async def test_a_parked_task_is_stopped_with_its_batch(story: Story) -> None:
    ids = await park(story)
    batch_id = (await story.task(ids["a"])).batch_id

    stopped = await story.commands.stop_batch(batch_id)

    assert stopped.canceled == {"paused": 1, "waiting": 3}
    assert set((await story.statuses(ids)).values()) == {"Canceled"}


async def test_a_parked_task_takes_no_results_and_is_not_paused_again(story: Story) -> None:
    ids = await park(story)
    before = await story.rows(*ids.values())

    with pytest.raises(NotRunning, match="The task is Paused"):
        await story.report(ids["a"])
    with pytest.raises(StaleAttempt):
        await story.fail(ids["a"], attempt=0)
    with pytest.raises(Conflict, match="already paused"):
        await story.commands.pause(ids["a"])

    assert await story.rows(*ids.values()) == before


async def test_only_a_spent_budget_parks(story: Story) -> None:
    ids = await story.run(story.job("final", retry=PARKING), story.job("ignored", retry={**PARKING, "ignore": ["E1"]}))

    await story.fail_for_good(ids["final"])
    await story.fail(ids["ignored"], code="E1")

    assert await story.statuses(ids) == {"final": "Failure", "ignored": "Failure"}


async def test_a_timeout_can_park(story: Story) -> None:
    id = await story.run_one(story.job("a", timeout=30, retry=PARKING))

    await story.at(30)
    await story.at(60)

    parked = await story.task(id)
    assert (parked.parked, parked.failure_reason, parked.attempt) == (True, "Timeout", 1)
    await story.at(3600)
    assert (await story.task(id)).parked


async def test_a_parked_task_holds_its_ancestors(story: Story) -> None:
    # Given a parent that was retried by hand after its child began, and the child parked meanwhile
    ids = await story.run(
        story.job("parent"), story.job("a", on("parent", "always"), retry=PARKING), story.job("other", "parent")
    )
    await story.fail_for_good(ids["parent"])
    await story.start()
    await story.fail_until_exhausted(ids["a"])
    await story.commands.retry(ids["parent"])

    await story.commands.cancel(ids["other"])
    assert await story.statuses(ids) == {"parent": "Pending", "a": "Paused", "other": "Canceled"}

    await story.commands.cancel(ids["a"])
    assert await story.statuses(ids) == {"parent": "Canceled", "a": "Canceled", "other": "Canceled"}


async def test_a_parked_task_resumed_while_its_parent_runs_again_does_not_wait_for_it(story: Story) -> None:
    """What it waited for was there when it began; like any live task it goes on where it was."""
    ids = await story.run(story.job("parent"), story.job("a", on("parent", "always"), retry=PARKING))
    await story.fail_for_good(ids["parent"])
    await story.start()
    await story.fail_until_exhausted(ids["a"])
    await story.commands.retry(ids["parent"])

    await story.commands.resume(ids["a"])

    assert await story.statuses(ids) == {"parent": "Pending", "a": "Pending"}
    await story.finish(ids.values())
