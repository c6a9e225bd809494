"""From an ending to those who waited for it, in the same transaction."""

from __future__ import annotations

import pytest

from perdure.domain.states import Status
from tests.store.drafts import a_task, fixed_retry
from tests.store.scenario import Scenario

CONDITIONS = ("on_success", "always", "on_failure")


async def _end(scenario: Scenario, key: str, outcome: str) -> None:
    """Bring a pending task to an end; Skipped comes from a parent of its own."""
    if outcome == "canceled":
        await scenario.cancel(key)
        return
    await scenario.run(key)
    await (scenario.fail(key) if outcome == "failure" else scenario.succeed(key))


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("success", {"on_success": "pending", "always": "pending", "on_failure": "skipped"}),
        ("failure", {"on_success": "failure", "always": "pending", "on_failure": "pending"}),
        ("canceled", {"on_success": "failure", "always": "pending", "on_failure": "pending"}),
    ],
)
async def test_what_becomes_of_children(scenario: Scenario, outcome: str, expected: dict[str, str]) -> None:
    await scenario.submit(
        a_task("parent"), *[a_task(condition, after={"parent": condition}) for condition in CONDITIONS]
    )

    await _end(scenario, "parent", outcome)

    assert await scenario.statuses() == {"parent": outcome, **expected}


async def test_what_becomes_of_the_children_of_a_skipped_task(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("first"),
        a_task("skipped", after={"first": "on_failure"}),
        *[a_task(condition, after={"skipped": condition}) for condition in CONDITIONS],
    )

    await _end(scenario, "first", "success")

    assert await scenario.statuses("skipped", *CONDITIONS) == {
        "skipped": "skipped",
        "on_success": "skipped",
        "always": "pending",
        "on_failure": "skipped",
    }


async def test_a_child_with_other_parents_waits_for_them(scenario: Scenario) -> None:
    others = {"b": "on_success", "c": "on_success"}
    await scenario.submit(
        *[a_task(key) for key in "abc"],
        *[a_task(condition, after={"a": condition, **others}) for condition in CONDITIONS],
    )

    await _end(scenario, "a", "success")
    assert await scenario.column("on_success", "waits") == 2
    assert await scenario.statuses(*CONDITIONS) == {
        "on_success": "waiting",
        "always": "waiting",
        "on_failure": "skipped",
    }

    await _end(scenario, "b", "success")
    await _end(scenario, "c", "success")
    assert await scenario.statuses("on_success", "always") == {"on_success": "pending", "always": "pending"}


async def test_a_failure_names_the_parent_that_caused_it(scenario: Scenario) -> None:
    await scenario.submit(a_task("a"), a_task("b", after="a"), a_task("c", after="b"))

    await _end(scenario, "a", "failure")

    assert (await scenario.task("b")).failure_reason == "Parent task a failed"
    assert (await scenario.task("c")).failure_reason == "Parent task b failed"
    assert await scenario.column("b", "ended_by") == scenario.ids["a"]
    assert await scenario.column("c", "ended_by") == scenario.ids["b"]


async def test_a_failure_goes_down_until_a_condition_takes_it_up(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("work"),
        a_task("next", after="work"),
        a_task("last", after="next"),
        a_task("clean up", after={"next": "on_failure"}),
        a_task("tell", after={"last": "always"}),
        a_task("after clean up", after="clean up"),
    )

    await _end(scenario, "work", "failure")

    assert await scenario.statuses() == {
        "work": "failure",
        "next": "failure",
        "last": "failure",
        "clean up": "pending",
        "tell": "pending",
        "after clean up": "waiting",
    }


async def test_a_skip_goes_down_until_a_condition_takes_it_up(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("work"),
        a_task("repair", after={"work": "on_failure"}),
        a_task("check repair", after="repair"),
        a_task("repair of repair", after={"repair": "on_failure"}),
        a_task("deep", after="check repair"),
        a_task("always", after={"check repair": "always"}),
        a_task("join", after={"work": "on_success", "deep": "always"}),
    )

    await _end(scenario, "work", "success")

    assert await scenario.statuses() == {
        "work": "success",
        "repair": "skipped",
        "check repair": "skipped",
        "repair of repair": "skipped",
        "deep": "skipped",
        "always": "pending",
        "join": "pending",
    }


async def test_a_lost_condition_does_not_wait_for_the_other_parents(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("a"),
        a_task("b"),
        a_task("child", after={"a": "on_failure", "b": "on_success"}),
        a_task("grandchild", after={"child": "always", "b": "always"}),
    )

    await _end(scenario, "a", "success")

    assert await scenario.statuses("child", "grandchild") == {"child": "skipped", "grandchild": "waiting"}
    await _end(scenario, "b", "failure")
    assert await scenario.statuses("child", "grandchild") == {"child": "skipped", "grandchild": "pending"}


async def test_a_diamond_joins_once(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("top"),
        a_task("left", after="top"),
        a_task("right", after="top"),
        a_task("bottom", after=["left", "right"]),
    )

    await _end(scenario, "top", "success")
    await scenario.run("left", "right")
    await scenario.succeed("left", "right")

    assert await scenario.moves("bottom") == [("waiting", "pending")]


async def test_a_diamond_fails_once(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("top"),
        a_task("left", after="top"),
        a_task("right", after="top"),
        a_task("bottom", after=["left", "right"]),
    )

    await _end(scenario, "top", "failure")

    assert await scenario.moves("bottom") == [("waiting", "failure")]
    assert (await scenario.task("bottom")).failure_reason == "Parent task left failed"


async def test_a_child_of_parents_that_end_together_by_different_ways(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("good"),
        a_task("bad"),
        a_task("any", after={"good": "always", "bad": "always"}),
        a_task("fits", after={"good": "on_success", "bad": "on_failure"}),
        a_task("doomed", after={"good": "on_success", "bad": "on_success"}),
    )
    await scenario.run("good", "bad")

    await scenario.fail("bad")
    await scenario.succeed("good")

    assert await scenario.statuses("any", "fits", "doomed") == {
        "any": "pending",
        "fits": "pending",
        "doomed": "failure",
    }


async def test_a_hundred_parents_that_end_in_one_transaction(scenario: Scenario) -> None:
    parents = [f"parent {number}" for number in range(100)]
    await scenario.submit(*[a_task(key) for key in parents], a_task("child", after=parents))
    await scenario.run(*parents)

    await scenario.succeed(*parents[:99])
    assert (await scenario.column("child", "waits"), await scenario.status("child")) == (1, Status.WAITING)

    await scenario.succeed(parents[99])
    assert await scenario.moves("child") == [("waiting", "pending")]


async def test_a_retrying_task_does_not_propagate(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("parent", retry=fixed_retry(max_retries=1)),
        *[a_task(condition, after={"parent": condition}) for condition in CONDITIONS],
    )
    await scenario.run("parent")
    waiting = dict.fromkeys(CONDITIONS, "waiting")

    await scenario.fail("parent")
    assert await scenario.statuses() == {"parent": "retry_pending", **waiting}

    scenario.clock.advance(10)
    await scenario.release_due()
    await scenario.run("parent")
    assert await scenario.statuses() == {"parent": "running", **waiting}

    await scenario.fail("parent")
    assert await scenario.statuses() == {
        "parent": "failure",
        "on_success": "failure",
        "always": "pending",
        "on_failure": "pending",
    }


async def test_the_ending_and_what_follows_from_it_are_one_transaction(scenario: Scenario) -> None:
    await scenario.submit(a_task("a", on_failure=None), a_task("b", after="a"), a_task("c", after={"b": "always"}))
    await scenario.run("a")
    scenario.committed.clear()

    await scenario.fail("a")

    (changes,) = scenario.committed
    assert [(scenario.key_of(moved.task_id), moved.target) for moved in changes.moved] == [
        ("a", Status.FAILURE),
        ("b", Status.FAILURE),
        ("c", Status.PENDING),
    ]


async def test_what_is_rolled_back_has_not_happened(scenario: Scenario) -> None:
    await scenario.submit(a_task("a"), a_task("b", after="a"))
    await scenario.run("a")

    async def fail_midway(_session: object) -> None:
        raise RuntimeError("the power fails")

    with pytest.raises(RuntimeError, match="the power fails"):
        await scenario.store.write(fail_midway)

    assert await scenario.statuses() == {"a": "running", "b": "waiting"}
