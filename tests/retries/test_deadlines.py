"""No retry is scheduled to start after the policy's expiry."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.definitions import STEADY
from tests.retries.story import Story
from tests.support.receiver import Receiver

EXPIRIES: dict[str, dict[str, Any]] = {
    "expires_at": {"expires_at": "2030-01-01T00:00:29Z"},
    "expires_after_secs": {"expires_after_secs": 29},
    "the earlier of two": {"expires_at": "2030-01-01T00:00:29Z", "expires_after_secs": 3600},
}


@pytest.mark.parametrize("expiry", EXPIRIES.values(), ids=EXPIRIES.keys())
async def test_the_task_fails_when_the_next_retry_would_come_too_late(story: Story, expiry: dict[str, Any]) -> None:
    ids = await story.run(
        story.job("a", retry={**STEADY, **expiry}, on_failure=[story.hook("/failed")]), story.job("child", "a")
    )

    await story.fail(ids["a"])
    assert await story.progress(ids["a"]) == ("RetryPending", 1, 1, 10)
    await story.at(10)
    # The next one would start at 30.
    failed = await story.fail(ids["a"])

    assert failed.failure_reason == "it broke (retry_deadline)"
    assert await story.progress(ids["a"]) == ("Failure", 1, 1, None)
    assert await story.status(ids["child"]) == "Failure"
    assert await story.hooks(ids["a"]) == ["failure:1"]
    assert [row["message"] for row in await story.attempts(ids["a"])] == ["it broke", "it broke (retry_deadline)"]
    assert story.metric("task_retry_exhausted_total") == 0


async def test_a_retry_right_at_the_expiry_still_starts(story: Story) -> None:
    id = await story.run_one(story.job("a", retry={**STEADY, "expires_after_secs": 10}))

    await story.fail(id)
    assert await story.due(id) == 10
    await story.at(10)

    assert await story.status(id) == "Running"


async def test_the_time_counts_from_the_creation_of_the_task(story: Story) -> None:
    ids = await story.submit(
        story.job("a"), story.job("child", "a", timeout=3600, retry={**STEADY, "expires_after_secs": 60})
    )
    await story.at(0)
    await story.at(55)
    await story.report(ids["a"])
    await story.start()

    failed = await story.fail(ids["child"])

    assert (failed.status.label, failed.failure_reason) == ("Failure", "it broke (retry_deadline)")


async def test_a_wait_that_the_other_side_asks_for_ends_at_the_expiry_too(story: Story, receiver: Receiver) -> None:
    receiver.answer("/a", status=429, headers={"Retry-After": "120"})

    id = await story.run_one(story.job("a", retry={**STEADY, "expires_after_secs": 60}))

    assert await story.progress(id) == ("Failure", 0, 0, None)
    assert (await story.task(id)).failure_reason == "on_start webhook failed: HTTP 429 (retry_deadline)"


async def test_a_timeout_past_the_expiry_is_the_end(story: Story) -> None:
    id = await story.run_one(story.job("a", timeout=30, retry={**STEADY, "expires_after_secs": 35}))

    await story.at(30)

    assert (await story.task(id)).failure_reason == "Timeout (retry_deadline)"


async def test_the_log_says_that_it_was_the_deadline(story: Story, caplog: pytest.LogCaptureFixture) -> None:
    id = await story.run_one(story.job("a", retry={**STEADY, "expires_after_secs": 1}))

    await story.fail(id)

    assert "the next retry would come after the deadline; the task failed" in caplog.messages


async def test_the_reason_stays_readable_behind_the_longest_message(story: Story) -> None:
    id = await story.run_one(story.job("a", retry={**STEADY, "expires_after_secs": 1}))

    failed = await story.fail(id, "ü" * 5000)

    assert failed.failure_reason is not None
    assert failed.failure_reason.startswith("ü" * 2000)
    assert failed.failure_reason.endswith("ü (retry_deadline)")
    assert len(failed.failure_reason.encode()) <= 4096


async def test_a_deadline_is_the_end_even_where_exhaustion_would_park(story: Story) -> None:
    id = await story.run_one(story.job("a", retry={**STEADY, "expires_after_secs": 1, "on_exhausted": "pause"}))

    failed = await story.fail(id)

    assert (failed.status.label, failed.parked) == ("Failure", False)
