"""The document "Retry Mechanism": retries after weeks, on any number of instances, with their errors kept."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.retries.conftest import TellStory
from tests.retries.story import Story

DAY = 86_400
FOURTEEN_DAYS: dict[str, Any] = {
    "enabled": True,
    "strategy": "custom",
    "maxAttempts": 2,
    "customSchedule": {"attempts": [{"attempt": 1, "delayDays": 7}, {"attempt": 2, "delayDays": 14}]},
}


async def test_002_retries_after_seven_and_fourteen_days(story: Story) -> None:
    id = await story.run_one(story.job("a", retry=FOURTEEN_DAYS))

    await story.fail(id)
    assert await story.due(id) == 7 * DAY
    await story.at(7 * DAY - 1)
    assert await story.status(id) == "RetryPending"
    await story.at(7 * DAY)
    await story.fail(id)
    assert await story.due(id) == 21 * DAY
    await story.at(21 * DAY)
    await story.fail(id)

    assert await story.progress(id) == ("Failure", 2, 2, None)
    assert [row["delay_source"] for row in await story.attempts(id)] == ["custom", "custom", None]


async def test_002_each_due_retry_is_started_by_one_instance_only(tell: TellStory) -> None:
    first = await tell()
    instances = [first, *[await tell() for _ in range(3)]]
    ids = await first.run(*[first.job(f"job-{number}") for number in range(20)])
    for id in ids.values():
        await first.fail(id)
    first.clock.advance(10)

    async def pick_up(story: Story) -> None:
        await story.engine.due_loop.run_once()
        await story.start()

    await asyncio.gather(*[pick_up(story) for story in instances])
    # Who was asked to leave a locked row alone looks again.
    for story in instances:
        await pick_up(story)

    for key, id in ids.items():
        assert first.starts(key) == ["start:0", "start:1"]
        assert await first.progress(id) == ("Running", 1, 1, None)


async def test_002_errors_of_all_attempts_are_kept(story: Story) -> None:
    id = await story.run_one(story.job("a"))

    await story.fail(id, "first", code="E1")
    await story.at(10)
    await story.fail(id, "second", error_class="rate_limited")
    await story.at(30)
    await story.report(id)

    shown = (await story.client.get(f"/task/{id}")).json["error_history"]
    assert shown == [
        {
            "attempt": 0,
            "timestamp": "2030-01-01T00:00:00Z",
            "error": "first",
            "error_class": "retryable",
            "http_status": None,
            "code": "E1",
        },
        {
            "attempt": 1,
            "timestamp": "2030-01-01T00:00:10Z",
            "error": "second",
            "error_class": "rate_limited",
            "http_status": None,
            "code": None,
        },
    ]
