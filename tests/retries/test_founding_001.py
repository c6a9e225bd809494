"""The plan "Automatic Retry Mechanism": its integration, database and observability tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from perdure.config import Engine, Server
from perdure.testing import VirtualClock
from tests.retries.conftest import TellStory
from tests.retries.story import Story
from tests.support.receiver import Receiver

ONE_AT_A_TIME = Engine(claim_batch=1)
ETERNAL = 86_400


def after_days(*days: int) -> dict[str, Any]:
    return {"strategy": "custom", "max_retries": len(days), "schedule": [f"{count}d" for count in days]}


def day(number: int) -> datetime:
    return datetime(2024, 1, number, tzinfo=UTC)


async def test_001_retry_workflow_end_to_end(story: Story, receiver: Receiver) -> None:
    receiver.answer("/a", status=500)
    receiver.answer("/a", status=429, headers={"Retry-After": "25"})
    id = await story.submit_one(story.job("a"))

    await story.at(0)
    assert await story.progress(id) == ("RetryPending", 1, 1, 10)
    await story.at(10)
    assert await story.progress(id) == ("RetryPending", 2, 1, 35)
    await story.at(35)
    await story.report(id)

    assert await story.progress(id) == ("Success", 2, 1, None)
    assert story.starts("a") == ["start:0", "start:1", "start:2"]


async def test_001_processor_picks_up_retries_when_due_and_not_before(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail(id)

    await story.at(9.999999)
    assert await story.progress(id) == ("RetryPending", 1, 1, 10)
    assert story.starts("a") == ["start:0"]

    await story.at(10)
    assert await story.progress(id) == ("Running", 1, 1, None)
    assert story.starts("a") == ["start:0", "start:1"]


async def test_001_permanent_failure_after_max_attempts(story: Story) -> None:
    id = await story.run_one(story.job("a"))

    failed = await story.fail_until_exhausted(id)

    assert (failed.status.label, failed.attempt, failed.retry_count, failed.next_retry_at) == ("Failure", 3, 3, None)
    await story.at(1_000_000)
    assert await story.progress(id) == ("Failure", 3, 3, None)
    assert len(story.starts("a")) == 4


async def test_001_successful_retry_clears_the_schedule_and_keeps_the_history(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail(id, error_class="retryable")
    await story.at(10)

    done = await story.report(id)

    assert (done.next_retry_at, done.failure_reason, done.error_class) == (None, None, None)
    assert [row["outcome"] for row in await story.attempts(id)] == ["failure", "success"]
    assert [entry["error"] for entry in (await story.client.get(f"/task/{id}")).json["error_history"]] == ["it broke"]


async def test_001_example_ordering_of_new_tasks_and_due_retries(tell: TellStory, clock: VirtualClock) -> None:
    """
    created     status     next_retry_at  order
    2024-01-01  failed     2024-01-05     1
    2024-01-03  new        -              2
    2024-01-04  new        -              3
    2024-01-04  failed     2024-01-06     not ready yet
    """
    story = await tell(engine=ONE_AT_A_TIME)
    await story.commands.pause_scope("kind", "new")
    clock.set(day(1))
    old = await story.run_one(story.job("old", timeout=ETERNAL, retry=after_days(4)))
    await story.fail(old)
    clock.set(day(3))
    await story.submit(story.job("third", kind="new"))
    clock.set(day(4))
    await story.submit(story.job("fourth", kind="new"))
    late = await story.run_one(story.job("late", retry=after_days(2)))
    await story.fail(late)
    seen = len(story.receiver.requests)

    clock.set(day(5))
    await story.commands.resume_scope("kind", "new")
    await story.work()

    assert [request.path for request in story.receiver.requests[seen:]] == ["/old", "/third", "/fourth"]
    assert (await story.task(late)).next_retry_at == day(6)
    clock.set(day(6))
    await story.work()
    assert [request.path for request in story.receiver.requests[seen:]][3:] == ["/late"]


async def test_001_an_old_retry_is_never_starved_by_new_submissions(tell: TellStory) -> None:
    story = await tell(engine=ONE_AT_A_TIME)
    rule = {"type": "Concurrency", "matcher": {"kind": "test", "status": "Running"}, "max_concurrency": 1}
    old = await story.run_one(story.job("old", rules=[rule]))
    await story.fail(old)
    story.clock.advance(10)
    for number in range(5):
        await story.submit(story.job(f"new-{number}", rules=[rule]))

    await story.work()

    # There is one place, and the oldest takes it.
    assert [request.path for request in story.receiver.requests] == ["/old", "/old"]


async def test_001_priority_goes_before_age(tell: TellStory) -> None:
    story = await tell(engine=ONE_AT_A_TIME)
    old = await story.run_one(story.job("old"))
    await story.fail(old)
    story.clock.advance(10)
    await story.submit(story.job("young"), story.job("urgent", priority=1))

    await story.work()

    assert [request.path for request in story.receiver.requests[1:]] == ["/urgent", "/old", "/young"]


async def test_001_retries_are_picked_up_by_instances_that_are_allowed_their_kind(tell: TellStory) -> None:
    etl = await tell(server=Server(kinds=("etl",)))
    mail = await tell(server=Server(kinds=("mail",)))
    ids = await etl.submit(etl.job("etl", kind="etl"), etl.job("mail", kind="mail"))
    await etl.work()
    await mail.work()
    for id in ids.values():
        await etl.fail(id)

    await mail.at(10)

    assert await mail.statuses(ids) == {"etl": "Pending", "mail": "Running"}
    await etl.work()
    assert await etl.statuses(ids) == {"etl": "Running", "mail": "Running"}
    assert [row["instance"] for row in await etl.attempts(ids["etl"])] == ["instance-1"]


async def test_001_retry_state_survives_a_restart(tell: TellStory) -> None:
    before = await tell()
    id = await before.run_one(before.job("a"))
    await before.fail(id, retry_after=40, code="busy")
    stored = await before.rows(id)
    await before.engine.stop()

    after = await tell()
    assert await after.rows(id) == stored
    await after.at(39)
    assert await after.progress(id) == ("RetryPending", 1, 0, 40)
    await after.at(40)

    assert await after.progress(id) == ("Running", 1, 0, None)
    await after.fail(id)
    assert await after.progress(id) == ("RetryPending", 2, 1, 50)


async def test_001_observability(story: Story, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="perdure.engine")

    id = await story.run_one(story.job("a", retry={"strategy": "fixed_delay", "delay_secs": 10, "max_retries": 1}))
    await story.fail(id, "no disk")
    await story.at(10)
    await story.report(id)
    other = await story.run_one(story.job("b", retry={"strategy": "immediate", "max_retries": 1}))
    await story.fail_until_exhausted(other)

    lines = [(record.getMessage(), getattr(record, "fields", {})) for record in caplog.records]
    (scheduled,) = [fields for text, fields in lines if "is retried" in text and fields["task"] == id]
    assert scheduled["attempt"] == 0
    assert scheduled["delay_secs"] == 10
    assert scheduled["reason"] == "no disk"
    assert scheduled["next_retry_at"] == "2030-01-01T00:00:10.000+00:00"
    assert [fields["attempt"] for text, fields in lines if text == "a retry succeeded"] == [1]
    (last,) = [fields for text, fields in lines if text == "retries are exhausted; the task failed"]
    assert (last["task"], last["attempt"], last["reason"]) == (other, 1, "it broke")
