"""A retry by hand puts back what ended only because of the task: below it, above it, and nothing beside it."""

from __future__ import annotations

import asyncio

import pytest

from perdure.clock import monotonic
from perdure.config import Engine
from perdure.store.statements import Dialect
from tests.engine.definitions import Definition, on, task
from tests.retries.conftest import TellStory
from tests.retries.story import Story

WIDE = 20
MANY = 2000
VERY_MANY = 20_000
#: Far more than it takes; quadratic work would not fit.
LONGEST_SECS = 30.0


async def attempts_of(story: Story, ids: dict[str, str]) -> dict[str, int]:
    return {key: (await story.task(id)).attempt for key, id in ids.items()}


async def end_all(story: Story, ids: dict[str, str]) -> None:
    """Run everything to its end; on the way and at the end the database agrees with itself."""
    await story.check_health()
    await story.finish(ids.values())
    await story.check_health()


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


async def two_failed_parents(story: Story, below: list[Definition]) -> dict[str, str]:
    """`left` and `right` failed; each has a child of its own, one held back by `gate`, and `both` needs the two."""
    ids = await story.run(
        story.job("gate"),
        story.job("left"),
        story.job("right"),
        # These hold their parents, which would be dead ends otherwise.
        story.job("hold-left", on("left", "always"), "gate"),
        story.job("hold-right", on("right", "always"), "gate"),
        story.job("only-left", "left"),
        story.job("only-right", "right"),
        story.job("both", "left", "right"),
        *below,
    )
    await story.fail_for_good(ids["left"])
    await story.fail_for_good(ids["right"])
    return ids


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


async def test_ancestors_canceled_as_dead_ends_live_again(story: Story) -> None:
    # Given a climb over two levels, from running to waiting ancestors
    ids = await story.run(
        story.job("root", on_cancel=[story.hook("/stop")]),
        story.job("left", "root"),
        story.job("right", "root"),
        story.job("start"),
        story.job("join", "left", "right", "start"),
        story.job("below", "join"),
    )
    await story.fail_for_good(ids["start"])
    assert await story.statuses(ids) == {
        "root": "Canceled",
        "left": "Canceled",
        "right": "Canceled",
        "start": "Failure",
        "join": "Failure",
        "below": "Failure",
    }

    # When the task that brought all of this down is retried
    await story.commands.retry(ids["start"])

    # Then all of it lives again, each with a new attempt
    assert await story.statuses(ids) == {
        "root": "Pending",
        "left": "Waiting",
        "right": "Waiting",
        "start": "Pending",
        "join": "Waiting",
        "below": "Waiting",
    }
    assert set((await attempts_of(story, ids)).values()) == {1}
    assert [row["delay_source"] for row in await story.attempts(ids["root"])] == ["manual"]
    await end_all(story, ids)
    assert set((await story.statuses(ids)).values()) == {"Success"}
    assert story.starts("root") == ["start:0", "start:1"]
    assert [request.headers["Idempotency-Key"] for request in story.receiver.requests_to("/stop")] == [
        f"{ids['root']}:cancel:0"
    ]


@pytest.mark.parametrize("retried", ["first", "second"])
async def test_a_dead_end_lives_again_for_any_child_that_needs_it(story: Story, retried: str) -> None:
    """Two children were canceled one after the other; the second took the parent with it, but both need it."""
    ids = await story.run(story.job("parent"), story.job("first", "parent"), story.job("second", "parent"))
    await story.commands.cancel(ids["first"])
    await story.commands.cancel(ids["second"])
    assert set((await story.statuses(ids)).values()) == {"Canceled"}

    await story.commands.retry(ids[retried])

    left = "second" if retried == "first" else "first"
    assert await story.statuses(ids) == {"parent": "Pending", retried: "Waiting", left: "Canceled"}
    await end_all(story, ids)
    assert await story.statuses(ids) == {"parent": "Success", retried: "Success", left: "Canceled"}


async def test_a_dead_end_that_nobody_needs_again_stays_one(story: Story) -> None:
    ids = await two_failed_parents(story, [story.job("feeder"), story.job("below", "both", "feeder")])
    # `below` was doomed with `both`, and `feeder` had nobody else.
    assert (await story.statuses(ids))["feeder"] == "Canceled"

    await story.commands.retry(ids["left"])

    # `right` still keeps `both` and `below` from starting, so nobody needs the feeder.
    assert await story.statuses({key: ids[key] for key in ("both", "below", "feeder")}) == {
        "both": "Failure",
        "below": "Failure",
        "feeder": "Canceled",
    }
    await story.check_health()
    await story.commands.retry(ids["right"])
    await end_all(story, ids)
    assert set((await story.statuses(ids)).values()) == {"Success"}


async def test_a_child_retried_while_its_parent_runs_waits_for_it(story: Story) -> None:
    ids = await story.run(story.job("parent"), story.job("child", "parent"), story.job("other", "parent"))
    await story.commands.cancel(ids["child"])

    again = await story.commands.retry(ids["child"])

    assert (again.status.label, again.attempt, again.waits) == ("Waiting", 1, 1)
    await end_all(story, ids)
    assert await story.status(ids["child"]) == "Success"


async def test_a_child_retried_by_itself_starts_although_its_parent_failed(story: Story) -> None:
    """Whoever asks for this very task gets it: the parent is not run again behind their back."""
    ids = await story.run(story.job("parent"), story.job("child", "parent"), story.job("below", "child"))
    await story.fail_for_good(ids["parent"])

    await story.commands.retry(ids["child"])
    await story.start()

    assert await story.statuses(ids) == {"parent": "Failure", "child": "Running", "below": "Waiting"}
    await end_all(story, ids)
    assert await story.statuses(ids) == {"parent": "Failure", "child": "Success", "below": "Success"}


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


async def test_the_wake_of_a_wake(tell: TellStory) -> None:
    """Failed, retried, failed again: each time all of it goes down and comes up once more."""
    story = await tell()
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


async def test_without_dead_ends_there_is_nothing_above_to_put_back(tell: TellStory) -> None:
    story = await tell(engine=Engine(dead_end_cancel_enabled=False))
    ids = await story.run(story.job("parent"), story.job("other"), story.job("child", "parent", "other"))
    await story.fail_for_good(ids["other"])
    assert await story.statuses(ids) == {"parent": "Running", "other": "Failure", "child": "Failure"}

    await story.commands.retry(ids["other"])

    assert await story.statuses(ids) == {"parent": "Running", "other": "Pending", "child": "Waiting"}
    await end_all(story, ids)


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


# Batches.


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
