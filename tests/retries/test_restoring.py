"""A retry by hand puts back what ended only because of the task, and nothing beside it."""

from __future__ import annotations

import asyncio

import pytest

from tests.engine.definitions import on
from tests.retries.story import Story
from tests.retries.wakes import attempts_of, end_all, two_failed_parents

WIDE = 20


async def test_descendants_that_failed_in_its_wake_wait_again(story: Story) -> None:
    deep = [story.job(f"deep-{number}", f"deep-{number - 1}" if number else "a") for number in range(10)]
    wide = [story.job(f"wide-{number}", "a") for number in range(WIDE)]
    ids = await story.run(
        story.job("a"), *deep, *wide, story.job("join", *[f"wide-{number}" for number in range(WIDE)], "deep-9")
    )
    await story.fail_for_good(ids["a"])
    assert set((await story.statuses(ids)).values()) == {"Failure"}

    await story.commands.retry(ids["a"])

    assert await story.statuses(ids) == {key: "Pending" if key == "a" else "Waiting" for key in ids}
    assert set((await attempts_of(story, ids)).values()) == {1}
    (join,) = await story.rows(ids["join"])
    assert join["waits"] == WIDE + 1
    assert (join["failure_reason"], join["ended_at"], join["ended_by"]) == (None, None, None)
    await end_all(story, ids)
    assert set((await story.statuses(ids)).values()) == {"Success"}
    # Whoever was never called before has a key of its new attempt.
    assert story.starts("join") == ["start:1"]


async def test_the_hooks_of_what_is_put_back_have_new_keys(story: Story) -> None:
    ids = await story.run(story.job("a"), story.job("child", "a", on_failure=[story.hook("/failed")]))
    await story.fail_for_good(ids["a"])
    await story.commands.retry(ids["a"])
    await story.start()

    await story.fail_for_good(ids["a"])
    await story.deliver()

    assert await story.hooks(ids["child"]) == ["failure:0", "failure:1"]
    keys = [request.headers["Idempotency-Key"] for request in story.receiver.requests_to("/failed")]
    assert keys == [f"{ids['child']}:failure:0", f"{ids['child']}:failure:1"]


@pytest.mark.parametrize(("first", "second"), [("left", "right"), ("right", "left")])
async def test_of_two_failed_parents_both_must_be_retried(story: Story, first: str, second: str) -> None:
    ids = await two_failed_parents(story, [story.job("below", "both")])

    # One is not enough: what the other one keeps from starting stays over
    await story.commands.retry(ids[first])
    assert await story.statuses(ids) == {
        "gate": "Running",
        first: "Pending",
        second: "Failure",
        "hold-left": "Waiting",
        "hold-right": "Waiting",
        f"only-{first}": "Waiting",
        f"only-{second}": "Failure",
        "both": "Failure",
        "below": "Failure",
    }
    await story.check_health()
    await story.start()
    await story.report(ids[first])

    # With the other one, whichever came first, nothing keeps it from starting
    await story.commands.retry(ids[second])
    assert await story.statuses({key: ids[key] for key in ("both", "below")}) == {"both": "Waiting", "below": "Waiting"}
    (both,) = await story.rows(ids["both"])
    assert both["waits"] == 1
    await end_all(story, ids)
    assert set((await story.statuses(ids)).values()) == {"Success"}


async def test_two_failed_parents_retried_together(story: Story) -> None:
    ids = await two_failed_parents(story, [])

    await asyncio.gather(story.commands.retry(ids["left"]), story.commands.retry(ids["right"]))

    assert await story.status(ids["both"]) == "Waiting"
    await end_all(story, ids)
    assert set((await story.statuses(ids)).values()) == {"Success"}


async def test_what_failed_by_itself_stays(story: Story) -> None:
    ids = await story.run(
        story.job("a"),
        story.job("other"),
        story.job("own", on("a", "always")),
        story.job("below-own", "own"),
        story.job("below", "a", on("own", "always")),
    )
    await story.fail_for_good(ids["a"])
    await story.start()
    await story.fail_for_good(ids["own"])

    await story.commands.retry(ids["a"])

    assert await story.statuses(ids) == {
        "a": "Pending",
        "other": "Running",
        "own": "Failure",
        "below-own": "Failure",
        "below": "Waiting",
    }
    assert await attempts_of(story, ids) == {"a": 1, "other": 0, "own": 0, "below-own": 0, "below": 1}
    await end_all(story, ids)
    assert await story.status(ids["below"]) == "Success"


async def test_what_was_canceled_by_hand_stays(story: Story) -> None:
    ids = await story.run(
        story.job("a"), story.job("canceled", "a"), story.job("child", "a"), story.job("last", "child")
    )
    await story.commands.cancel(ids["canceled"])
    await story.fail_for_good(ids["a"])

    await story.commands.retry(ids["a"])

    assert await story.statuses(ids) == {"a": "Pending", "canceled": "Canceled", "child": "Waiting", "last": "Waiting"}
    await end_all(story, ids)


async def test_children_that_ran_because_it_failed_stay(story: Story) -> None:
    ids = await story.run(
        story.job("a"),
        story.job("rescue", on("a", "on_failure")),
        story.job("cleanup", on("a", "always")),
        story.job("after-rescue", "rescue"),
    )
    await story.fail_for_good(ids["a"])
    await story.start()
    await story.report(ids["rescue"])
    await story.report(ids["cleanup"])
    kept = await story.rows(ids["rescue"], ids["cleanup"], ids["after-rescue"])

    await story.commands.retry(ids["a"])

    assert await story.rows(ids["rescue"], ids["cleanup"], ids["after-rescue"]) == kept
    await end_all(story, ids)
    assert set((await story.statuses(ids)).values()) == {"Success"}
    assert story.starts("rescue") == ["start:0"]


async def test_children_that_still_wait_have_their_waits_recounted(story: Story) -> None:
    ids = await story.run(
        story.job("a"),
        story.job("slow"),
        story.job("cleanup", on("a", "always"), "slow"),
        story.job("rescue", on("a", "on_failure"), "slow"),
        story.job("paused", on("a", "always"), "slow"),
    )
    await story.commands.pause(ids["paused"])
    await story.fail_for_good(ids["a"])
    waiting = [ids[key] for key in ("cleanup", "rescue", "paused")]
    assert [row["waits"] for row in await story.rows(*waiting)] == [1, 1, 1]

    await story.commands.retry(ids["a"])

    assert [row["waits"] for row in await story.rows(*waiting)] == [2, 2, 2]
    assert {row["attempt"] for row in await story.rows(*waiting)} == {0}
    await story.check_health()
    await story.report(ids["slow"])
    assert await story.status(ids["cleanup"]) == "Waiting"
    await story.commands.resume(ids["paused"])
    await end_all(story, ids)
    # This time it succeeded, so there was nothing to rescue.
    assert await story.statuses(ids) == {
        "a": "Success",
        "slow": "Success",
        "cleanup": "Success",
        "rescue": "Skipped",
        "paused": "Success",
    }


async def test_a_delayed_descendant_still_waits_for_its_moment(story: Story) -> None:
    ids = await story.run(story.job("a"), story.job("tomorrow", "a", delay="1d"), story.job("late", "a", delay=5))
    await story.fail_for_good(ids["a"])
    story.clock.advance(10)

    await story.commands.retry(ids["a"])
    await story.start()
    await story.report(ids["a"])
    await story.work()
    assert await story.statuses(ids) == {"a": "Success", "tomorrow": "Pending", "late": "Running"}
    assert story.starts("tomorrow") == []

    await story.report(ids["late"])
    await story.at(86_400)
    assert await story.status(ids["tomorrow"]) == "Running"


async def test_a_delayed_task_retried_by_hand_starts_now(story: Story) -> None:
    id = await story.submit_one(story.job("a", delay="1d"))
    await story.commands.cancel(id)

    await story.commands.retry(id)
    await story.start()

    assert await story.status(id) == "Running"


async def test_the_wake_of_a_wake(story: Story) -> None:
    """Failed, retried, failed again: each time all of it goes down and comes up once more."""
    ids = await story.run(
        story.job("a"), story.job("b", "a"), story.job("c", "b"), story.job("d", on("c", "on_failure"))
    )

    for attempt in range(1, 4):
        await story.fail_for_good(ids["a"])
        assert await story.status(ids["c"]) == "Failure"
        await story.commands.retry(ids["a"])
        await story.start()
        found = await attempts_of(story, ids)
        assert (found["a"], found["b"], found["c"]) == (attempt, attempt, attempt)
        await story.check_health()
    # It ran at the first failure, and once is enough.
    assert story.starts("d") == ["start:0"]
    await end_all(story, ids)
