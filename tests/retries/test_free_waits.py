"""Waits that the other side asks for: not charged, but bounded; everything else is paid from the budget."""

from __future__ import annotations

from perdure.config import Retry
from tests.engine.definitions import STEADY
from tests.retries.conftest import TellStory
from tests.retries.story import Story
from tests.support.receiver import Receiver

BUSY = {"Retry-After": "5"}


async def test_a_requested_wait_spends_nothing_of_the_budget(story: Story, receiver: Receiver) -> None:
    receiver.answer("/a", status=429, headers=BUSY, times=5)
    receiver.answer("/a", status=500, times=None)
    id = await story.run_one(story.job("a"))

    spent = []
    while (moment := (await story.task(id)).next_retry_at) is not None:
        spent.append((await story.progress(id))[1:3])
        story.clock.set(moment)
        await story.work()

    # Five free waits, then the three retries of the policy.
    assert spent == [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 1), (7, 2), (8, 3)]
    assert await story.progress(id) == ("Failure", 8, 3, None)
    assert [row["charged"] for row in await story.attempts(id)] == [False] * 5 + [True] * 3 + [None]


async def test_a_requested_wait_is_free_even_when_the_budget_is_spent(story: Story, receiver: Receiver) -> None:
    receiver.answer("/a", status=500)
    receiver.answer("/a", status=429, headers={"Retry-After": "77"})
    id = await story.run_one(story.job("a", retry={**STEADY, "max_retries": 1}))

    await story.at(10)

    assert await story.progress(id) == ("RetryPending", 2, 1, 87)


async def test_free_waits_are_bounded_then_charged(tell: TellStory, receiver: Receiver) -> None:
    story = await tell(retry=Retry(max_free_waits=2))
    receiver.answer("/a", status=429, headers=BUSY, times=None)
    id = await story.run_one(story.job("a"))

    while (moment := (await story.task(id)).next_retry_at) is not None:
        found = await story.task(id)
        assert found.retry_count <= found.attempt
        story.clock.set(moment)
        await story.work()

    assert [row["charged"] for row in await story.attempts(id)] == [False, False, True, True, True, None]
    # Charged or not, the wait is never shorter than the policy's own.
    assert [row["delay_secs"] for row in await story.attempts(id)] == [10, 10, 10, 20, 40, None]
    assert await story.progress(id) == ("Failure", 5, 3, None)
    assert story.metric("task_retry_exhausted_total") == 1


async def test_a_server_wait_is_spread_upward_only(tell: TellStory, receiver: Receiver) -> None:
    story = await tell()
    receiver.answer("/a", status=429, headers={"Retry-After": "100"}, times=None)
    receiver.answer("/limit", status=429, headers={"Retry-After": "3600"}, times=None)
    spread = {"max_retries": 1, "jitter": "proportional", "jitter_ratio": 0.5}
    ids = await story.run(story.job("a", retry=spread), story.job("limit", retry=spread))

    for _ in range(10):
        story.clock.advance(3600)
        await story.work()

    waits = [row["delay_secs"] for row in await story.attempts(ids["a"])]
    assert all(100 <= wait <= 150 for wait in waits)
    assert len(set(waits)) == len(waits) == 11
    # The limit holds after the dice were thrown as well.
    assert {row["delay_secs"] for row in await story.attempts(ids["limit"])} == {3600}


async def test_the_budget_counts_from_zero_again_for_the_delay_after_free_waits(
    story: Story, receiver: Receiver
) -> None:
    """The delay of a charged retry goes by the budget spent, not by the number of attempts."""
    receiver.answer("/a", status=429, headers=BUSY, times=3)
    receiver.answer("/a", status=500)
    id = await story.run_one(story.job("a"))

    for second in (10, 20, 30):
        await story.at(second)

    assert [row["delay_secs"] for row in await story.attempts(id)] == [10, 10, 10, 10]
    assert await story.progress(id) == ("RetryPending", 4, 1, 40)
