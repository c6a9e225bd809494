"""The plan "Retry with Backoff": its timeline, and the integration tests that it asks for."""

from __future__ import annotations

from typing import Any

from tests.engine.definitions import on
from tests.retries.conftest import TellStory
from tests.retries.story import Story
from tests.support.receiver import Receiver

#: The policy of the example in section 12; without jitter, so that its moments are known to the second.
IMPORT: dict[str, Any] = {
    "max_retries": 3,
    "initial_delay_secs": 10,
    "backoff_multiplier": 2.0,
    "max_delay_secs": 120,
    "jitter": "none",
}


async def test_000_timeline_of_two_timeouts_and_a_success(story: Story) -> None:
    ids = await story.submit(
        story.job("import", kind="etl", timeout=30, retry=IMPORT),
        story.job("child", "import"),
    )

    for second in range(100):
        await story.at(second)
        assert await story.status(ids["child"]) == "Waiting"
    story.clock.advance(1)
    await story.report(ids["import"])

    assert await story.timeline(ids["import"]) == [
        (0, "pending", "claimed", 0),
        (0, "claimed", "running", 0),
        (30, "running", "retry_pending", 1),
        (40, "retry_pending", "pending", 1),
        (40, "pending", "claimed", 1),
        (40, "claimed", "running", 1),
        (70, "running", "retry_pending", 2),
        (90, "retry_pending", "pending", 2),
        (90, "pending", "claimed", 2),
        (90, "claimed", "running", 2),
        (100, "running", "success", 2),
    ]
    planned = [story.second(row["next_retry_at"]) for row in await story.attempts(ids["import"])]
    assert planned == [40, 90, None]
    assert await story.timeline(ids["child"]) == [(100, "waiting", "pending", 0)]
    assert await story.progress(ids["import"]) == ("Success", 2, 2, None)


async def test_000_timeline_moves_with_every_sign_of_life(story: Story) -> None:
    """The timeout counts from `last_updated`: a report at t=20 moves the first timeout from 30 to 50, and all after."""
    id = await story.submit_one(story.job("import", timeout=30, retry=IMPORT))

    for second in range(131):
        await story.at(second)
        if second == 20:
            await story.touch(id, new_success=1)

    moved = [(second, attempt) for second, _, to, attempt in await story.timeline(id) if to == "retry_pending"]
    assert moved == [(50, 1), (90, 2)]
    assert (await story.task(id)).success == 1


async def test_000_retry_on_timeout_eventually_succeeds(story: Story) -> None:
    ids = await story.run(story.job("a", timeout=30), story.job("child", "a"))

    await story.at(30)
    assert await story.progress(ids["a"]) == ("RetryPending", 1, 1, 40)
    await story.at(40)
    await story.report(ids["a"], result={"rows": 7})
    await story.finish(ids.values())

    assert await story.statuses(ids) == {"a": "Success", "child": "Success"}
    assert [(row["outcome"], row["trigger"], row["message"]) for row in await story.attempts(ids["a"])] == [
        ("failure", "timeout", "Timeout"),
        ("success", None, None),
    ]


async def test_000_retry_on_webhook_failure_eventually_succeeds(story: Story, receiver: Receiver) -> None:
    receiver.answer("/a", status=503, times=2)

    ids = await story.run(story.job("a"), story.job("child", "a"))
    assert await story.progress(ids["a"]) == ("RetryPending", 1, 1, 10)
    await story.at(10)
    assert await story.progress(ids["a"]) == ("RetryPending", 2, 2, 30)
    await story.at(30)
    assert await story.progress(ids["a"]) == ("Running", 2, 2, None)
    await story.finish(ids.values())

    assert await story.statuses(ids) == {"a": "Success", "child": "Success"}
    assert [(row["outcome"], row["trigger"], row["http_status"]) for row in await story.attempts(ids["a"])] == [
        ("failure", "webhook_failure", 503),
        ("failure", "webhook_failure", 503),
        ("success", None, None),
    ]


async def test_000_retry_on_explicit_failure_eventually_succeeds(story: Story) -> None:
    ids = await story.run(story.job("a"), story.job("child", "a"))

    await story.fail(ids["a"])
    assert await story.progress(ids["a"]) == ("RetryPending", 1, 1, 10)
    await story.at(10)
    await story.finish(ids.values())

    assert await story.statuses(ids) == {"a": "Success", "child": "Success"}


async def test_000_retry_exhausted_is_failure_and_propagates(story: Story, receiver: Receiver) -> None:
    ids = await story.run(
        story.job("a", on_failure=[story.hook("/failed")], on_success=[story.hook("/succeeded")]),
        story.job("child", "a"),
        story.job("grandchild", "child"),
        story.job("rescue", on("a", "on_failure")),
        story.job("cleanup", on("a", "always")),
    )

    await story.fail_until_exhausted(ids["a"])

    assert await story.statuses(ids) == {
        "a": "Failure",
        "child": "Failure",
        "grandchild": "Failure",
        "rescue": "Pending",
        "cleanup": "Pending",
    }
    # One execution and three retries, after 10, 20 and 40 seconds.
    assert [row["delay_secs"] for row in await story.attempts(ids["a"])] == [10, 20, 40, None]
    assert await story.progress(ids["a"]) == ("Failure", 3, 3, None)
    assert (await story.task(ids["child"])).failure_reason == "Parent task a failed"
    await story.deliver()
    assert [request.headers["Idempotency-Key"] for request in receiver.requests_to("/failed")] == [
        f"{ids['a']}:failure:3"
    ]
    assert receiver.requests_to("/succeeded") == []


async def test_000_cancel_during_retry_pending_is_definitive(story: Story, receiver: Receiver) -> None:
    ids = await story.run(story.job("a", on_failure=[story.hook("/failed")]), story.job("child", "a"))
    await story.fail(ids["a"])

    await story.commands.cancel(ids["a"])

    assert await story.statuses(ids) == {"a": "Canceled", "child": "Failure"}
    assert await story.progress(ids["a"]) == ("Canceled", 1, 1, None)
    await story.at(3600)
    assert await story.status(ids["a"]) == "Canceled"
    assert story.starts("a") == ["start:0"]
    assert receiver.requests_to("/failed") == []


async def test_000_children_stay_waiting_while_the_parent_retries(story: Story) -> None:
    ids = await story.run(
        story.job("a"),
        story.job("on success", "a"),
        story.job("always", on("a", "always")),
        story.job("on failure", on("a", "on_failure")),
    )
    children = {key: id for key, id in ids.items() if key != "a"}
    untouched = await story.rows(*children.values())

    for second in (0, 10, 30):
        await story.at(second)
        await story.fail(ids["a"])
        assert await story.status(ids["a"]) == "RetryPending"
        assert await story.rows(*children.values()) == untouched


async def test_000_idempotency_keys_differ_per_attempt(story: Story, receiver: Receiver) -> None:
    id = await story.run_one(story.job("a", on_success=[story.hook("/done")]))

    for second in (0, 10, 30):
        await story.at(second)
        await story.fail(id)
    await story.at(70)
    await story.report(id)
    await story.deliver()

    assert story.starts("a") == [f"start:{attempt}" for attempt in range(4)]
    assert [request.headers["X-Task-Attempt"] for request in receiver.requests_to("/a")] == ["0", "1", "2", "3"]
    assert [request.query["handle"] for request in receiver.requests_to("/a")] == [
        f"http://perdure.test/task/{id}?attempt={attempt}" for attempt in range(4)
    ]
    assert [request.headers["Idempotency-Key"] for request in receiver.requests_to("/done")] == [f"{id}:success:3"]


async def test_000_a_retried_task_frees_its_slot(tell: TellStory) -> None:
    """Section 14: a task that waits for its retry does not count as running."""
    story = await tell()
    rule = {"type": "Concurrency", "matcher": {"kind": "etl", "status": "Running"}, "max_concurrency": 1}
    ids = await story.run(story.job("a", kind="etl", rules=[rule]), story.job("b", kind="etl", rules=[rule]))
    assert await story.statuses(ids) == {"a": "Running", "b": "Pending"}

    await story.fail(ids["a"])
    await story.start()

    assert await story.statuses(ids) == {"a": "RetryPending", "b": "Running"}
