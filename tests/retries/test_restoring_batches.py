"""Putting back much at once: long and wide wakes, and everything that failed in a batch."""

from __future__ import annotations

import pytest

from perdure.clock import monotonic
from perdure.store.statements import Dialect
from tests.engine.definitions import Definition, on, task
from tests.retries.story import Story
from tests.retries.wakes import end_all, two_failed_parents

MANY = 2000
VERY_MANY = 20_000
#: Far more than it takes; quadratic work would not fit.
LONGEST_SECS = 30.0


def a_chain(length: int, first: str) -> list[Definition]:
    return [task(f"chain-{number}", f"chain-{number - 1}" if number else first) for number in range(length)]


@pytest.mark.parametrize("shape", ["chain", "fan"])
async def test_long_and_wide_wakes_take_a_few_statements(story: Story, shape: str) -> None:
    fan = [task(f"leaf-{number}", "left") for number in range(MANY)]
    ids = await two_failed_parents(story, a_chain(MANY, "left") if shape == "chain" else fan)
    statements: list[str] = []
    story.instance.store.on_query(lambda name, _: statements.append(name))

    await story.commands.retry(ids["left"])

    assert len(statements) < 20
    # The other parent, and the two that need it.
    assert (await _count(story))["failure"] == 3


@pytest.mark.parametrize("database_url", [Dialect.SQLITE], indirect=True)
async def test_a_long_wake_that_stays_over_takes_no_longer(story: Story) -> None:
    ids = await two_failed_parents(story, a_chain(VERY_MANY, "both"))

    began = monotonic()
    await story.commands.retry(ids["left"])

    assert monotonic() - began < LONGEST_SECS
    assert (await _count(story))["failure"] == VERY_MANY + 3


async def _count(story: Story) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in await story.rows():
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    return counts


async def test_everything_that_failed_in_a_batch_is_retried_in_place(story: Story) -> None:
    parking = {"strategy": "immediate", "max_retries": 1, "on_exhausted": "pause"}
    ids = await story.run(
        story.job("good"),
        story.job("bad"),
        story.job("worse"),
        story.job("below-bad", "bad"),
        story.job("below-both", "bad", "worse"),
        story.job("own", on("bad", "always")),
        story.job("parked", retry=parking),
        story.job("retrying"),
        story.job("canceled"),
        story.job("hold", on("worse", "always"), "retrying"),
    )
    await story.report(ids["good"])
    await story.fail_for_good(ids["bad"])
    await story.fail_for_good(ids["worse"])
    await story.fail_until_exhausted(ids["parked"])
    await story.start()
    await story.fail_for_good(ids["own"])
    await story.fail(ids["retrying"])
    await story.commands.cancel(ids["canceled"])
    batch_id = (await story.task(ids["good"])).batch_id

    revived = await story.commands.retry_batch(batch_id)

    # Bad, worse, own and parked, and the two that were brought down.
    assert revived == 6
    assert await story.statuses(ids) == {
        "good": "Success",
        "bad": "Pending",
        "worse": "Pending",
        "below-bad": "Waiting",
        "below-both": "Waiting",
        # Its condition is not met while the parent runs again.
        "own": "Waiting",
        "parked": "Pending",
        "retrying": "RetryPending",
        "canceled": "Canceled",
        "hold": "Waiting",
    }
    await end_all(story, ids)
    assert set((await story.statuses(ids)).values()) == {"Success", "Canceled"}


async def test_a_batch_without_failures_has_nothing_to_retry(story: Story) -> None:
    ids = await story.run(story.job("a"), story.job("b"))
    await story.report(ids["a"])
    before = await story.rows()

    assert await story.commands.retry_batch((await story.task(ids["a"])).batch_id) == 0

    assert await story.rows() == before
