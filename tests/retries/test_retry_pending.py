"""RetryPending wherever a status shows or counts: lists, graph, totals, pause, stop, rules, dead ends, metrics."""

from __future__ import annotations

import pytest

from perdure.config import Limits
from perdure.domain.errors import Conflict
from tests.engine.definitions import limit, on
from tests.retries.conftest import TellStory
from tests.retries.story import Story
from tests.support.receiver import Receiver


async def test_it_is_listed_and_can_be_asked_for(story: Story) -> None:
    ids = await story.run(story.job("a"), story.job("b"), story.job("c"))
    await story.fail(ids["a"])
    await story.fail(ids["b"], retry_after=500)

    listed = (await story.client.get("/task", status="RetryPending")).json
    due = (await story.client.get("/task", due_before="2030-01-01T00:01:00Z")).json

    assert {(row["id"], row["status"], row["attempt"], row["next_retry_at"]) for row in listed} == {
        (ids["a"], "RetryPending", 1, "2030-01-01T00:00:10Z"),
        (ids["b"], "RetryPending", 1, "2030-01-01T00:08:20Z"),
    }
    assert [row["id"] for row in due] == [ids["a"]]
    rate_limited = (await story.client.get("/task", error_class="rate_limited")).json
    assert [row["id"] for row in rate_limited] == [ids["b"]]


async def test_it_is_drawn_in_the_graph(story: Story) -> None:
    ids = await story.run(story.job("a"), story.job("child", "a"))
    batch_id = (await story.fail(ids["a"])).batch_id

    graph = (await story.client.get(f"/dag/{batch_id}")).json

    assert [(row["status"], row["attempt"], row["next_retry_at"]) for row in graph["tasks"]] == [
        ("RetryPending", 1, "2030-01-01T00:00:10Z"),
        ("Waiting", 0, None),
    ]


async def test_it_is_counted_in_the_totals_of_its_batch(story: Story) -> None:
    ids = await story.run(story.job("a"), story.job("b"), story.job("child", "a"))
    batch_id = (await story.fail(ids["a"])).batch_id

    counts = (await story.client.get(f"/batch/{batch_id}")).json["status_counts"]
    (summary,) = (await story.client.get("/batches", status="RetryPending")).json

    assert {status: number for status, number in counts.items() if number} == {
        "retry_pending": 1,
        "running": 1,
        "waiting": 1,
    }
    assert (summary["batch_id"], summary["status_counts"]["retry_pending"]) == (batch_id, 1)


async def test_it_is_shown_with_all_that_is_known_about_the_retry(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail(id, "no disk", code="ENOSPC", error_class="retryable")

    shown = (await story.client.get(f"/task/{id}")).json

    assert (shown["status"], shown["attempt"], shown["retry_count"]) == ("RetryPending", 1, 1)
    assert (shown["next_retry_at"], shown["failure_reason"]) == ("2030-01-01T00:00:10Z", "no disk")
    assert (shown["error_class"], shown["retry"]["max_retries"], shown["paused"]) == ("retryable", 3, False)
    assert [entry["code"] for entry in shown["error_history"]] == ["ENOSPC"]


async def test_paused_and_resumed_it_returns_to_the_same_moment(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail(id)

    await story.at(3)
    await story.commands.pause(id)
    assert await story.progress(id) == ("Paused", 1, 1, 10)
    assert (await story.client.get("/task", status="RetryPending")).json == []
    await story.at(7)
    await story.commands.resume(id)

    assert await story.progress(id) == ("RetryPending", 1, 1, 10)
    await story.at(10)
    assert await story.progress(id) == ("Running", 1, 1, None)


async def test_while_it_is_paused_no_moment_starts_it(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail(id)
    await story.commands.pause(id)

    await story.at(3600)
    assert await story.progress(id) == ("Paused", 1, 1, 10)
    assert await story.engine.due_loop.next_moment() is None
    await story.commands.resume(id)
    assert await story.progress(id) == ("RetryPending", 1, 1, 10)
    await story.work()

    assert await story.progress(id) == ("Running", 1, 1, None)


async def test_it_cannot_be_paused_twice_or_resumed_unpaused(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail(id)

    with pytest.raises(Conflict, match="is not paused; it is RetryPending"):
        await story.commands.resume(id)
    await story.commands.pause(id)
    with pytest.raises(Conflict, match="is already paused; it is Paused"):
        await story.commands.pause(id)


async def test_a_paused_one_can_be_canceled(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail(id)
    await story.commands.pause(id)

    await story.commands.cancel(id)

    assert await story.progress(id) == ("Canceled", 1, 1, None)


async def test_it_is_canceled_with_its_batch(story: Story, receiver: Receiver) -> None:
    ids = await story.run(
        story.job("retrying", on_failure=[story.hook("/failed")], on_cancel=[story.hook("/canceled")]),
        story.job("paused"),
        story.job("running"),
        story.job("child", "retrying"),
    )
    await story.fail(ids["retrying"])
    batch_id = (await story.fail(ids["paused"])).batch_id
    await story.commands.pause(ids["paused"])

    stopped = (await story.client.delete(f"/batch/{batch_id}")).json

    assert stopped == {
        "batch_id": batch_id,
        "canceled_waiting": 1,
        "canceled_pending": 0,
        "canceled_claimed": 0,
        "canceled_running": 1,
        "canceled_retry_pending": 1,
        "canceled_paused": 1,
        "already_terminal": 0,
    }
    await story.at(3600)
    assert set((await story.statuses(ids)).values()) == {"Canceled"}
    assert {(await story.task(id)).failure_reason for id in ids.values()} == {"Batch stopped"}
    # Nobody works on a task that waits for its retry, so there is nobody to tell.
    assert receiver.requests_to("/canceled") == receiver.requests_to("/failed") == []


async def test_it_does_not_count_for_concurrency_rules(story: Story) -> None:
    rules = [limit("etl", 1)]
    ids = await story.run(story.job("a", kind="etl", rules=rules), story.job("b", kind="etl", rules=rules))
    await story.fail(ids["a"])
    await story.start()
    assert await story.statuses(ids) == {"a": "RetryPending", "b": "Running"}

    # When its moment comes it has no privilege either.
    await story.at(10)
    assert await story.statuses(ids) == {"a": "Pending", "b": "Running"}
    await story.report(ids["b"])
    await story.start()

    assert await story.statuses(ids) == {"a": "Running", "b": "Success"}


async def test_it_does_not_count_for_capacity_rules(story: Story) -> None:
    rule = {"type": "Capacity", "matcher": {"kind": "etl", "status": "Running"}, "max_capacity": 10}
    ids = await story.run(*[story.job(key, kind="etl", rules=[rule], expected_count=10) for key in ("a", "b")])
    assert await story.statuses(ids) == {"a": "Running", "b": "Pending"}

    await story.fail(ids["a"])
    await story.start()

    assert await story.statuses(ids) == {"a": "RetryPending", "b": "Running"}


async def test_it_does_not_count_for_configured_limits(tell: TellStory) -> None:
    story = await tell(limits=Limits(kinds={"etl": 1}))
    ids = await story.run(story.job("a", kind="etl"), story.job("b", kind="etl"))

    await story.fail(ids["a"])
    await story.start()

    assert await story.statuses(ids) == {"a": "RetryPending", "b": "Running"}


async def test_it_holds_its_ancestors_where_an_ended_one_would_not(story: Story) -> None:
    # Given a running task whose children are one that retries and one that will be canceled
    ids = await story.run(
        story.job("ancestor"),
        story.job("gate"),
        story.job("retrying", on("gate", "always")),
        story.job("sibling", "ancestor"),
        story.job("join", "ancestor", "retrying"),
    )
    await story.report(ids["gate"])
    await story.start()
    await story.fail(ids["retrying"])

    # When the last child but those that hang on the retry is over
    await story.commands.cancel(ids["sibling"])
    assert await story.statuses(ids) == {
        "ancestor": "Running",
        "gate": "Success",
        "retrying": "RetryPending",
        "sibling": "Canceled",
        "join": "Waiting",
    }

    # Then the ancestor is held until the retry itself is given up
    await story.commands.cancel(ids["retrying"])
    assert await story.status(ids["join"]) == "Failure"
    assert await story.status(ids["ancestor"]) == "Canceled"


async def test_a_retrying_child_holds_the_parent_that_it_started_from(story: Story) -> None:
    """A parent retried by hand runs while its child, started before, waits for a retry of its own."""
    ids = await story.run(story.job("parent"), story.job("child", on("parent", "always")), story.job("other", "parent"))
    await story.fail_for_good(ids["parent"])
    await story.start()
    await story.fail(ids["child"])
    await story.commands.retry(ids["parent"])
    await story.start()

    await story.commands.cancel(ids["other"])
    assert await story.statuses(ids) == {"parent": "Running", "child": "RetryPending", "other": "Canceled"}

    await story.commands.cancel(ids["child"])
    assert await story.statuses(ids) == {"parent": "Canceled", "child": "Canceled", "other": "Canceled"}


async def test_metrics_count_retries_by_attempt_and_trigger(story: Story, receiver: Receiver) -> None:
    receiver.answer("/refused", status=500)
    ids = await story.run(story.job("silent", timeout=5), story.job("refused"), story.job("reported"))
    await story.fail(ids["reported"])
    await story.at(5)
    await story.at(10)
    await story.fail(ids["reported"])

    def counted(attempt: int, trigger: str) -> float:
        return story.metric("task_retry_total", attempt=str(attempt), trigger=trigger)

    assert counted(1, "timeout") == 1
    assert counted(1, "webhook_failure") == 1
    assert counted(1, "explicit") == 1
    assert counted(2, "explicit") == 1
    assert counted(2, "timeout") == 0
    assert story.metric("task_retry_exhausted_total") == 0
    assert story.metric("tasks_timed_out_total") == 1
    moves = {"from_status": "running", "to_status": "retry_pending"}
    assert story.metric("task_status_transitions_total", **moves) == 3


async def test_metrics_count_exhausted_retries_and_nothing_else(story: Story) -> None:
    once = {"strategy": "immediate", "max_retries": 1}
    ids = await story.run(
        story.job("a", retry=once), story.job("final", retry=once), story.job("none", retry={"enabled": False})
    )
    await story.fail_until_exhausted(ids["a"])
    await story.fail_for_good(ids["final"])
    await story.fail(ids["none"])

    assert story.metric("task_retry_exhausted_total") == 1


async def test_metrics_measure_how_late_a_retry_was_released(story: Story) -> None:
    ids = await story.run(story.job("punctual"), story.job("late"))
    await story.fail(ids["punctual"])
    await story.at(10)
    await story.fail(ids["late"])
    await story.at(20.5)

    assert story.metric("task_retry_lateness_seconds_count") == 2
    assert story.metric("task_retry_lateness_seconds_sum") == pytest.approx(0.5)


async def test_metrics_show_how_many_wait_for_a_retry(story: Story) -> None:
    ids = await story.run(story.job("a"), story.job("b"))
    for id in ids.values():
        await story.fail(id)
    await story.commands.pause(ids["b"])

    text = (await story.client.get("/metrics")).body.decode()

    assert 'tasks_by_status{status="retry_pending"} 1.0' in text
    assert 'tasks_by_status{status="paused"} 1.0' in text


async def test_a_task_that_retries_has_not_completed(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail(id)
    assert story.metric("tasks_completed_total", kind="test", outcome="failure") == 0

    await story.at(10)
    await story.report(id)

    assert story.metric("tasks_completed_total", kind="test", outcome="failure") == 0
    assert story.metric("tasks_completed_total", kind="test", outcome="success") == 1


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"error_class": "final"}, "the error is final; the task failed without a retry"),
        ({"code": "E2"}, "the policy ignores this failure; the task failed"),
        ({"code": "E3"}, "the policy does not retry this failure; the task failed"),
        ({"code": "E1"}, "an attempt failed; the task is retried"),
    ],
)
async def test_the_log_says_what_becomes_of_a_failure(
    story: Story, caplog: pytest.LogCaptureFixture, members: dict[str, str], message: str
) -> None:
    caplog.set_level("INFO", logger="perdure.engine")
    policy = {"max_retries": 1, "retry_on": ["E1", "E2"], "ignore": ["E2"]}
    id = await story.run_one(story.job("a", retry=policy))

    await story.fail(id, "it broke badly", **members)

    (record,) = [record for record in caplog.records if record.getMessage() == message]
    fields = record.__dict__["fields"]
    assert (fields["task"], fields["name"], fields["attempt"]) == (id, "task a", 0)
    assert (fields["reason"], fields["trigger"]) == ("it broke badly", "explicit")
