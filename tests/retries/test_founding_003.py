"""The ticket "Backoff Logic Consolidation": its three races, and one configured maximum on every path."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.config import load
from perdure.domain.errors import Conflict, Invalid, NotRunning, StaleAttempt
from perdure.domain.model import Task
from perdure.store.interface import Session
from perdure.store.statements import Dialect
from perdure.store.verbs.report import Report, apply_reports
from tests.retries.conftest import TellStory
from tests.retries.story import Story
from tests.store.drafts import broken
from tests.support.receiver import Receiver

INSTANCES = 12
DAY = 86_400

BACKOFF = """
[backoff]
default_backoff_seconds = [1, 2, 4, 8, 16, 32]
max_backoff_seconds = 60
backoff_multiplier = 2.0
jitter_enabled = true
jitter_max_percentage = 0.1

[retry.kinds.etl]
max_retries = 10

[retry.namespaces.acme]
strategy = "exponential_backoff"
max_retries = 10
initial_delay_secs = 50
"""


async def told_by_all(
    instances: list[Story], tell_one: Callable[[Story], Awaitable[Task]]
) -> tuple[list[Task], list[BaseException]]:
    """Everybody says the same at once: what those heard who were believed, and the refusals of the others."""
    answers = await asyncio.gather(*[tell_one(story) for story in instances], return_exceptions=True)
    believed = [answer for answer in answers if isinstance(answer, Task)]
    return believed, [answer for answer in answers if isinstance(answer, BaseException)]


@pytest.mark.parametrize("named", [True, False], ids=["of the attempt", "of the task"])
async def test_003_race_1_concurrent_backoff_updates(tell: TellStory, named: bool) -> None:
    """Twelve orchestrators process the same failure, each with dice of its own: one calculation is stored, once."""
    instances = [await tell() for _ in range(INSTANCES)]
    first = instances[0]
    id = await first.run_one(first.job("a", retry={"max_retries": 5, "initial_delay_secs": 60}))

    believed, refused = await told_by_all(instances, lambda story: story.fail(id, attempt=0 if named else None))

    assert len(believed) == 1
    assert len(refused) == INSTANCES - 1
    for refusal in refused:
        assert isinstance(refusal, StaleAttempt if named else NotRunning)
        assert (refusal.status_label, refusal.attempt) == ("RetryPending", 1)
    stored = await first.task(id)
    assert (stored.attempt, stored.retry_count) == (1, 1)
    assert stored.next_retry_at == believed[0].next_retry_at
    (row,) = await first.attempts(id)
    assert row["next_retry_at"] == stored.next_retry_at
    assert row["ended_at"] + timedelta(seconds=row["delay_secs"]) == pytest.approx(
        stored.next_retry_at, abs=timedelta(microseconds=1)
    )


async def test_003_race_1_no_attempt_is_lost_over_all_retries(tell: TellStory) -> None:
    instances = [await tell() for _ in range(10)]
    first = instances[0]
    id = await first.run_one(first.job("a", retry={"strategy": "immediate", "max_retries": 5}))

    for attempt in range(6):
        believed, _ = await told_by_all(instances, lambda story: story.fail(id))
        assert len(believed) == 1
        await asyncio.gather(*[story.engine.due_loop.run_once() for story in instances])
        await first.work()
        assert (await first.task(id)).attempt == min(attempt + 1, 5)

    assert await first.progress(id) == ("Failure", 5, 5, None)
    assert [row["attempt"] for row in await first.attempts(id)] == list(range(6))
    assert first.starts("a") == [f"start:{attempt}" for attempt in range(6)]


async def test_003_race_1_of_a_timeout_a_failure_and_a_success_one_counts(tell: TellStory) -> None:
    first, second, third = [await tell() for _ in range(3)]
    ids = await first.run(first.job("a", timeout=30), first.job("child", "a"))
    id = ids["a"]
    first.clock.advance(30)

    outcomes = await asyncio.gather(
        first.engine.timeout_loop.run_once(),
        second.fail(id, attempt=0),
        third.report(id, attempt=0),
        return_exceptions=True,
    )

    refused = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
    (row,) = await first.attempts(id)
    after = await first.task(id)
    if row["outcome"] == "success":
        assert len(refused) == 1
        assert await first.statuses(ids) == {"a": "Success", "child": "Pending"}
        assert after.attempt == 0
    else:
        assert len(refused) == (2 if row["trigger"] == "timeout" else 1)
        assert await first.statuses(ids) == {"a": "RetryPending", "child": "Waiting"}
        assert (after.attempt, after.retry_count) == (1, 1)


async def test_003_race_2_readiness_check_during_a_backoff_calculation(tell: TellStory) -> None:
    """Others look for due retries while one is being scheduled: none starts before the moment that was calculated."""
    instances = [await tell() for _ in range(INSTANCES)]
    first = instances[0]
    id = await first.run_one(first.job("a"))

    await asyncio.gather(
        *[story.engine.due_loop.run_once() for story in instances[1:6]],
        first.fail(id),
        *[story.engine.due_loop.run_once() for story in instances[6:]],
    )
    await asyncio.gather(*[story.engine.due_loop.run_once() for story in instances])

    assert await first.progress(id) == ("RetryPending", 1, 1, 10)


@pytest.mark.parametrize("database_url", [Dialect.POSTGRES], indirect=True)
async def test_003_race_2_status_and_moment_become_visible_together(tell: TellStory) -> None:
    """Held open right before its commit, a calculation shows others nothing of itself."""
    first, other = await tell(), await tell()
    id = await first.run_one(first.job("a"))

    async def schedule_slowly(session: Session) -> None:
        report = Report(id, 0, failure=broken())
        await apply_reports(session, [report], first.commands._decide)
        await other.engine.due_loop.run_once()
        assert await other.progress(id) == ("Running", 0, 0, None)

    await first.instance.store.write(schedule_slowly)

    assert await other.progress(id) == ("RetryPending", 1, 1, 10)
    await other.engine.due_loop.run_once()
    assert await other.progress(id) == ("RetryPending", 1, 1, 10)


async def test_003_race_3_later_timestamps_do_not_move_the_retry(tell: TellStory) -> None:
    """The moment is stored once; whatever touches the task afterwards, `last_updated` is not added to anything."""
    first, other = await tell(), await tell()
    id = await first.run_one(first.job("a", metadata={"step": 1}))
    await first.fail(id)

    for touch in (
        lambda: other.touch(id, metadata={"step": 2}),
        lambda: other.commands.count(id, 3, 0),
        lambda: other.commands.pause(id),
        lambda: other.commands.resume(id),
        lambda: other.touch(id, priority=5),
    ):
        first.clock.advance(1)
        await touch()
        await other.engine.counters.run_once()
        assert await first.progress(id) in [("RetryPending", 1, 1, 10), ("Paused", 1, 1, 10)]
    assert first.second((await first.task(id)).last_updated) == 5

    await first.at(9.999)
    assert await first.progress(id) == ("RetryPending", 1, 1, 10)
    await first.at(10)
    assert await first.progress(id) == ("Running", 1, 1, None)


@pytest.fixture
async def capped(tell: TellStory, tmp_path: Path) -> Story:
    """An engine that reads the section of the ticket from a TOML file."""
    file = tmp_path / "perdure.toml"
    file.write_text(BACKOFF)
    return await tell(load(environ={}, path=file))


async def _by_report(story: Story, id: str) -> None:
    await story.fail(id)


async def _by_timeout(story: Story, _: str) -> None:
    story.clock.advance(60)
    await story.engine.timeout_loop.run_once()


async def _by_greedy_report(story: Story, id: str) -> None:
    await story.fail(id, retry_after=10**12)


FAILING: dict[str, Callable[[Story, str], Awaitable[None]]] = {
    "explicit": _by_report,
    "timeout": _by_timeout,
    "retry_after in a report": _by_greedy_report,
}


async def delays_of(story: Story, id: str) -> list[float]:
    """The delays of a task's retries; each is as long as the time from the failure to the retry."""
    rows = [row for row in await story.attempts(id) if row["next_retry_at"] is not None]
    for row in rows:
        waited = (row["next_retry_at"] - row["ended_at"]).total_seconds()
        assert waited == pytest.approx(row["delay_secs"], abs=1e-5)
    return [row["delay_secs"] for row in rows]


@pytest.mark.parametrize("path", FAILING)
@pytest.mark.parametrize(
    ("members", "batch"),
    [
        ({"retry": {"max_retries": 10}}, {}),
        ({"retry": None, "kind": "etl"}, {}),
        ({"retry": None}, {"namespace": "acme"}),
    ],
    ids=["own policy", "policy of the kind", "policy of the namespace"],
)
async def test_003_no_delay_exceeds_the_configured_maximum(
    capped: Story, path: str, members: dict[str, Any], batch: dict[str, Any]
) -> None:
    (id,) = (await capped.run(capped.job("a", timeout=60, **members), **batch)).values()

    for _ in range(10):
        await FAILING[path](capped, id)
        moment = (await capped.task(id)).next_retry_at
        assert moment is not None
        capped.clock.set(moment)
        await capped.work()

    delays = await delays_of(capped, id)
    assert len(delays) == 10
    assert max(delays) <= 60
    # It is a maximum that is reached, not one that nobody came near to.
    assert max(delays) > 54


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (503, {}, {}),
        (429, {"Retry-After": "3600"}, {}),
        (503, {"Retry-After": "Tue, 01 Jan 2030 12:00:00 GMT"}, {}),
        (429, {"RateLimit-Reset": "600"}, {}),
        (429, {"X-RateLimit-Reset": "1893500000"}, {}),
        (500, {}, {"error_class": "rate_limited", "retry_after": 1e300}),
    ],
)
async def test_003_no_answer_makes_a_retry_wait_longer_than_the_maximum(
    capped: Story, receiver: Receiver, status: int, headers: dict[str, str], body: dict[str, Any]
) -> None:
    receiver.answer("/a", status=status, headers=headers, json=body, times=None)
    id = await capped.run_one(capped.job("a", retry={"max_retries": 3}))

    for _ in range(3):
        moment = (await capped.task(id)).next_retry_at
        assert moment is not None
        capped.clock.set(moment)
        await capped.work()

    delays = await delays_of(capped, id)
    assert len(delays) >= 3
    assert max(delays) <= 60
    if headers or body:
        assert delays == [60] * len(delays)


async def test_003_no_repetition_of_a_batch_waits_longer_than_the_maximum(capped: Story) -> None:
    ids = await capped.run(capped.job("a", retry={"enabled": False}), retry={"max_retries": 10})
    batch_id = (await capped.task(ids["a"])).batch_id

    async def moment(session: Session) -> Any:
        (row,) = await session.query("SELECT next_retry_at FROM batch WHERE id = ?", [batch_id])
        return row["next_retry_at"]

    for _ in range(10):
        await capped.work()
        (running,) = (await capped.client.get("/task", status="Running")).json
        await capped.fail(running["id"])
        failed_at = capped.clock.now()
        await capped.engine.execution_loop.run_once()
        at = await capped.instance.store.read(moment)
        assert (at - failed_at).total_seconds() <= 60
        capped.clock.set(at)
        await capped.engine.execution_loop.run_once()


async def test_003_policies_beyond_the_maximum_are_refused(capped: Story) -> None:
    for policy in (
        {"max_retries": 1, "max_delay_secs": 61},
        {"max_retries": 1, "strategy": "fixed_delay", "delay_secs": 61},
        {"max_retries": 1, "initial_delay_secs": 61},
    ):
        with pytest.raises(Invalid, match="retry"):
            await capped.submit(capped.job("a", retry=policy))


async def test_003_custom_schedules_say_their_delays_outright(capped: Story) -> None:
    id = await capped.run_one(
        capped.job("a", retry={"strategy": "custom", "max_retries": 2, "schedule": ["7d", "14d"]})
    )

    await capped.fail(id)
    assert await capped.due(id) == 7 * DAY
    await capped.at(7 * DAY)
    # Not even a server that is ready sooner cuts a schedule short.
    await capped.fail(id, error_class="rate_limited", retry_after=5)
    assert await capped.due(id) == 21 * DAY
