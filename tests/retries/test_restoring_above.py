"""A retry by hand puts back ancestors canceled as dead ends, and leaves what somebody else keeps from starting."""

from __future__ import annotations

import pytest

from perdure.config import Engine
from tests.retries.conftest import TellStory
from tests.retries.story import Story
from tests.retries.wakes import attempts_of, end_all, two_failed_parents


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


async def test_without_dead_ends_there_is_nothing_above_to_put_back(tell: TellStory) -> None:
    story = await tell(engine=Engine(dead_end_cancel_enabled=False))
    ids = await story.run(story.job("parent"), story.job("other"), story.job("child", "parent", "other"))
    await story.fail_for_good(ids["other"])
    assert await story.statuses(ids) == {"parent": "Running", "other": "Failure", "child": "Failure"}

    await story.commands.retry(ids["other"])

    assert await story.statuses(ids) == {"parent": "Running", "other": "Pending", "child": "Waiting"}
    await end_all(story, ids)
