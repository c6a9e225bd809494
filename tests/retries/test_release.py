"""From RetryPending to Pending: what begins anew, what is kept, and what an earlier attempt may still say."""

from __future__ import annotations

from itertools import pairwise

import pytest

from perdure.domain.errors import StaleAttempt
from perdure.domain.states import Status
from tests.retries.story import Story


async def test_a_released_retry_begins_anew_and_keeps_its_counts(story: Story) -> None:
    # Given a task that counted progress and failed
    id = await story.run_one(story.job("a", metadata={"step": 1}, payload={"order": 7}, expected_count=10))
    await story.at(2)
    await story.touch(id, new_success=3, new_failures=1)
    await story.at(5)
    failed = await story.fail(id)
    assert (failed.failure_reason, story.second(failed.started_at)) == ("it broke", 0)

    # When its moment comes
    story.clock.set(story.began)
    story.clock.advance(15)
    await story.engine.due_loop.run_once()

    # Then the attempt begins anew
    released = await story.task(id)
    assert released.status is Status.PENDING
    assert (released.started_at, released.ended_at, released.failure_reason) == (None, None, None)
    assert (released.next_retry_at, released.locked_by) == (None, None)
    assert story.second(released.last_updated) == 15
    # And what is the task's own is kept
    assert (released.success, released.failures, released.expected_count) == (3, 1, 10)
    assert (released.attempt, released.retry_count) == (1, 1)
    assert released.created_at == story.began
    assert released.error_class == "retryable"
    assert (released.payload, released.metadata) == (failed.payload, failed.metadata)


async def test_the_timeout_starts_afresh(story: Story) -> None:
    id = await story.run_one(story.job("a", timeout=30))
    await story.at(25)
    await story.fail(id)
    await story.at(35)
    assert await story.status(id) == "Running"

    await story.at(64)
    assert await story.status(id) == "Running"
    await story.at(65)

    assert await story.progress(id) == ("RetryPending", 2, 2, 85)


async def test_a_counter_still_counts_for_a_task_that_waits_for_its_retry(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail(id)

    await story.commands.count(id, 2, 1)
    await story.engine.counters.run_once()
    await story.at(10)

    retried = await story.task(id)
    assert (retried.success, retried.failures, retried.status.label) == (2, 1, "Running")


async def test_a_retry_is_sent_with_the_same_body_and_headers(story: Story) -> None:
    call = story.hook("/a")
    call["params"] |= {"body": {"order": 7}, "headers": {"X-Team": "blue"}}
    id = await story.run_one(story.job("a", on_start=call))
    await story.fail(id)
    await story.at(10)

    first, second = story.receiver.requests_to("/a")
    assert first.json() == second.json() == {"order": 7}
    assert first.headers["X-Team"] == second.headers["X-Team"] == "blue"
    assert first.headers["Idempotency-Key"] != second.headers["Idempotency-Key"]


@pytest.mark.parametrize("state", ["RetryPending", "Pending", "Running", "Success", "Failure"])
async def test_a_report_of_an_earlier_attempt_is_refused_and_changes_nothing(story: Story, state: str) -> None:
    # Given a task beyond its first attempt, in each state
    id = await story.run_one(story.job("a"))
    await story.fail(id)
    if state != "RetryPending":
        story.clock.advance(10)
        await story.engine.due_loop.run_once()
    if state not in ("RetryPending", "Pending"):
        await story.start()
    if state == "Success":
        await story.report(id)
    if state == "Failure":
        await story.fail_for_good(id)
    before, history = await story.rows(id), await story.attempts(id)

    for said in ("Success", "Failure", None):
        # When the first attempt speaks through its handle
        members = {"status": said, "failure_reason": "late", "new_success": 5, "metadata": {"late": True}}
        answered = await story.client.patch(f"/task/{id}?attempt=0", members)

        # Then it is told what is, and nothing has changed
        assert answered.status == 409
        assert (answered.json["task_status"], answered.json["task_attempt"]) == (state, 1)
        assert await story.rows(id) == before
        assert await story.attempts(id) == history


async def test_the_handle_of_each_attempt_speaks_for_that_attempt(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail(id)
    await story.at(10)
    old, new = [request.query["handle"] for request in story.receiver.requests_to("/a")]
    done = {"status": "Success"}

    late = await story.client.patch(old.removeprefix("http://perdure.test"), done)
    assert late.status == 409
    taken = await story.client.patch(new.removeprefix("http://perdure.test"), done)
    assert (taken.status, taken.json["status"], taken.json["attempt"]) == (200, "Success", 1)


async def test_a_report_without_an_attempt_is_taken_for_the_current_one(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail(id)
    await story.at(10)

    done = await story.report(id)

    assert (done.status.label, done.attempt) == ("Success", 1)


async def test_a_report_of_an_attempt_to_come_is_refused(story: Story) -> None:
    id = await story.run_one(story.job("a"))

    with pytest.raises(StaleAttempt):
        await story.report(id, attempt=1)

    assert await story.progress(id) == ("Running", 0, 0, None)


async def test_a_task_without_a_policy_fails_at_once(story: Story) -> None:
    ids = await story.run(
        story.job("none", retry=None), story.job("disabled", retry={"enabled": False}), story.job("enabled")
    )

    for id in ids.values():
        await story.fail(id)

    assert await story.statuses(ids) == {"none": "Failure", "disabled": "Failure", "enabled": "RetryPending"}


@pytest.mark.parametrize(
    ("policy", "delays", "source"),
    [
        ({"strategy": "immediate", "max_retries": 3}, [0, 0, 0], "immediate"),
        ({"strategy": "fixed_delay", "max_retries": 3, "delay_secs": 2.5}, [2.5, 2.5, 2.5], "fixed"),
        ({"strategy": "custom", "max_retries": 3, "schedule": [1, "1h"]}, [1, 3600, 3600], "custom"),
        ({"max_retries": 3, "jitter": "none"}, [5, 10, 20], "exponential"),
        ({"max_retries": 3, "jitter": "none", "max_delay_secs": 8}, [5, 8, 8], "exponential"),
    ],
    ids=["immediate", "fixed", "custom", "exponential", "capped"],
)
async def test_every_strategy_keeps_its_moments(
    story: Story, policy: dict[str, object], delays: list[float], source: str
) -> None:
    id = await story.run_one(story.job("a", retry=policy))

    await story.fail_until_exhausted(id)

    rows = await story.attempts(id)
    assert [row["delay_secs"] for row in rows] == [*delays, None]
    assert [row["delay_source"] for row in rows] == [source] * 3 + [None]
    starts = [row["started_at"] for row in rows]
    assert [(later - earlier).total_seconds() for earlier, later in pairwise(starts)] == delays
