"""Nobody needs the work of a task whose dependents are all over: it is canceled, and so on up the DAG."""

from __future__ import annotations

import pytest

from tests.store.drafts import a_call, a_task, fixed_retry
from tests.store.scenario import Scenario

REASON = "all child tasks already ended"


async def test_the_last_child_takes_its_parents_with_it(scenario: Scenario) -> None:
    await scenario.submit(a_task("a"), a_task("b", after="a"), a_task("c", after="b"))

    await scenario.cancel("c")

    assert await scenario.statuses() == dict.fromkeys("abc", "canceled")
    assert (await scenario.task("b")).failure_reason == REASON
    assert (await scenario.task("a")).failure_reason == REASON
    assert await scenario.column("b", "ended_by") == scenario.ids["c"]
    assert await scenario.column("a", "ended_by") == scenario.ids["b"]


async def test_a_parent_with_another_live_child_goes_on(scenario: Scenario) -> None:
    await scenario.submit(a_task("a"), a_task("b", after="a"), a_task("c", after="a"))

    await scenario.cancel("b")
    assert await scenario.statuses() == {"a": "pending", "b": "canceled", "c": "waiting"}

    await scenario.cancel("c")
    assert await scenario.statuses() == dict.fromkeys("abc", "canceled")


async def test_a_parent_that_ended_already_is_left_alone(scenario: Scenario) -> None:
    await scenario.submit(a_task("a"), a_task("b", after="a"))
    await scenario.run("a")
    await scenario.succeed("a")

    await scenario.cancel("b")

    assert await scenario.statuses() == {"a": "success", "b": "canceled"}


@pytest.mark.parametrize(
    ("condition", "parent"), [("on_success", "canceled"), ("always", "canceled"), ("on_failure", "pending")]
)
async def test_only_children_that_wait_for_success_or_end_count(
    scenario: Scenario, condition: str, parent: str
) -> None:
    await scenario.submit(a_task("parent"), a_task("child", after={"parent": condition}))

    await scenario.cancel("child")

    assert await scenario.status("parent") == parent


async def test_a_child_that_waits_for_failure_does_not_hold_its_parent(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("parent"), a_task("child", after="parent"), a_task("repair", after={"parent": "on_failure"})
    )

    await scenario.cancel("child")

    # The parent is canceled, which is what the repair waits for.
    assert await scenario.statuses() == {"parent": "canceled", "child": "canceled", "repair": "pending"}


async def test_a_skipped_child_does_not_start_a_climb(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("work"),
        a_task("parent"),
        a_task("child", after={"work": "on_failure", "parent": "on_success"}),
    )
    await scenario.run("work")

    await scenario.succeed("work")

    assert await scenario.statuses() == {"work": "success", "parent": "pending", "child": "skipped"}


async def test_a_skipped_child_counts_as_ended_when_another_starts_the_climb(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("work"),
        a_task("parent"),
        a_task("skipped", after={"work": "on_failure", "parent": "on_success"}),
        a_task("other", after="parent"),
    )
    await scenario.run("work")
    await scenario.succeed("work")

    await scenario.cancel("other")

    assert await scenario.status("parent") == "canceled"


async def test_a_child_that_fails_by_another_parent_takes_this_one_with_it(scenario: Scenario) -> None:
    await scenario.submit(a_task("bad"), a_task("idle"), a_task("child", after=["bad", "idle"]))
    await scenario.run("bad")

    await scenario.fail("bad")

    assert await scenario.statuses() == {"bad": "failure", "idle": "canceled", "child": "failure"}


async def test_a_cascade_takes_all_its_dead_ends_with_it(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("bad"),
        a_task("b", after="bad"),
        a_task("c", after=["b", "far"]),
        a_task("far", after="farther"),
        a_task("farther"),
        a_task("needed", after="farther"),
    )
    await scenario.run("bad")

    await scenario.fail("bad")

    assert await scenario.statuses() == {
        "bad": "failure",
        "b": "failure",
        "c": "failure",
        "far": "canceled",
        "farther": "pending",
        "needed": "waiting",
    }


async def test_a_canceled_ancestor_fails_its_other_descendants_in_turn(scenario: Scenario) -> None:
    # The grandparent's `always` child is over, its on_failure child is released by the cancel.
    await scenario.submit(
        a_task("top"),
        a_task("middle", after="top"),
        a_task("leaf", after="middle"),
        a_task("alarm", after={"middle": "on_failure"}),
        a_task("after alarm", after="alarm"),
    )

    await scenario.cancel("leaf")

    assert await scenario.statuses() == {
        "top": "canceled",
        "middle": "canceled",
        "leaf": "canceled",
        "alarm": "pending",
        "after alarm": "waiting",
    }


async def test_both_sides_of_a_diamond_and_its_top(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("top"),
        a_task("left", after="top"),
        a_task("right", after="top"),
        a_task("bottom", after=["left", "right"]),
    )

    await scenario.cancel("bottom")

    assert set((await scenario.statuses()).values()) == {"canceled"}


async def test_a_barrier_may_be_canceled_but_nothing_above_it(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("a"),
        a_task("barrier", after="a", dead_end_barrier=True),
        a_task("c", after="barrier"),
        a_task("d", after="c"),
    )

    await scenario.cancel("d")

    assert await scenario.statuses() == {"a": "pending", "barrier": "canceled", "c": "canceled", "d": "canceled"}


async def test_a_barrier_that_ends_itself_starts_no_climb(scenario: Scenario) -> None:
    await scenario.submit(a_task("a"), a_task("barrier", after="a", dead_end_barrier=True))

    await scenario.cancel("barrier")

    assert await scenario.statuses() == {"a": "pending", "barrier": "canceled"}


async def test_a_barrier_on_one_side_of_a_diamond_holds_the_top(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("above"),
        a_task("top", after="above"),
        a_task("left", after="top", dead_end_barrier=True),
        a_task("right", after="top"),
        a_task("bottom", after=["left", "right"]),
    )

    await scenario.cancel("bottom")

    # The climb over the left side stops there; over the right side it goes on, and both children are over.
    assert await scenario.statuses() == dict.fromkeys(("above", "top", "left", "right", "bottom"), "canceled")


async def test_barriers_in_a_long_chain_stop_the_climb_at_the_lowest(scenario: Scenario) -> None:
    length = 1000
    await scenario.submit(
        a_task("0"),
        *[
            a_task(str(number), after=str(number - 1), dead_end_barrier=number in (300, 700))
            for number in range(1, length)
        ],
    )

    await scenario.cancel(str(length - 1))

    statuses = await scenario.statuses()
    assert [statuses[str(number)] for number in (0, 300, 698, 699, 700, 701)] == [
        "pending",
        "waiting",
        "waiting",
        "waiting",
        "canceled",
        "canceled",
    ]


async def test_a_retrying_child_holds_its_ancestors(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("a"),
        a_task("late"),
        a_task("retrying", after={"a": "always"}, retry=fixed_retry(max_retries=1)),
        a_task("b", after=["late"]),
        a_task("join", after=["retrying", "late"]),
    )
    await scenario.run("a")
    await scenario.succeed("a")
    await scenario.run("retrying")
    await scenario.fail("retrying")
    assert await scenario.status("retrying") == "retry_pending"

    await scenario.cancel("b")

    assert await scenario.statuses("late", "join") == {"late": "pending", "join": "waiting"}


async def test_a_running_ancestor_is_told(scenario: Scenario) -> None:
    await scenario.submit(a_task("parent", on_cancel=[a_call("stop")]), a_task("child", after="parent"))
    await scenario.run("parent")

    await scenario.cancel("child")

    assert await scenario.status("parent") == "canceled"
    assert await scenario.hooks("parent") == ["cancel:0"]
    (attempt,) = await scenario.attempts("parent")
    assert (attempt["outcome"], attempt["message"]) == ("canceled", REASON)


async def test_a_retrying_or_paused_ancestor_is_canceled_too(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("retrying", retry=fixed_retry()),
        a_task("paused"),
        a_task("child", after=["retrying", "paused"]),
    )
    await scenario.run("retrying")
    await scenario.fail("retrying")
    await scenario.pause("paused")

    await scenario.cancel("child")

    assert set((await scenario.statuses()).values()) == {"canceled"}


async def test_it_can_be_switched_off(scenario: Scenario) -> None:
    without = await scenario.another(dead_ends=False)
    await scenario.submit(a_task("a"), a_task("b", after="a"))

    await without.cancel("b")

    assert await scenario.statuses() == {"a": "pending", "b": "canceled"}
