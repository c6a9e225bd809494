"""A retrying task never propagates: on no path by which a task can fail does anybody else hear of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from perdure.domain.states import Status
from tests.engine.definitions import STEADY, on
from tests.retries.story import Story


async def _refuse(story: Story, _: str) -> None:
    await story.start()


async def _time_out(story: Story, _: str) -> None:
    await story.start()
    story.clock.advance(60)
    await story.engine.timeout_loop.run_once()


async def _report(story: Story, id: str) -> None:
    await story.start()
    await story.fail(id)


@dataclass(frozen=True, slots=True)
class Path:
    """One way to fail: what the receiver does, what happens to the task, what the task is like."""

    happen: Callable[[Story, str], Awaitable[None]]
    trigger: str
    answer: dict[str, Any] | None = None
    members: dict[str, Any] | None = None


PATHS = {
    "on_start refused": Path(_refuse, "webhook_failure", {"status": 500}),
    "on_start rate limited": Path(_refuse, "webhook_failure", {"status": 429, "headers": {"Retry-After": "3"}}),
    "on_start broken off": Path(_refuse, "webhook_failure", {"disconnect": True}),
    "timeout": Path(_time_out, "timeout"),
    "PATCH Failure": Path(_report, "explicit"),
    "response completion": Path(_refuse, "webhook_failure", {"status": 502}, {"completion": "response"}),
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
async def test_nobody_hears_of_a_failure_that_is_retried(story: Story, path: Path) -> None:
    # Given a task with children of every condition, an ancestor, and hooks for every ending
    if path.answer is not None:
        story.receiver.answer("/a", **path.answer, times=None)
    hooks = {name: [story.hook(f"/{name}")] for name in ("on_success", "on_failure")}
    ids = await story.submit(
        story.job("a", **hooks, **(path.members or {})),
        story.job("on success", "a"),
        story.job("always", on("a", "always")),
        story.job("on failure", on("a", "on_failure")),
        story.job("grandchild", "on success"),
        story.job("join", "a", "on failure"),
    )
    others = [id for key, id in ids.items() if key != "a"]
    untouched = await story.rows(*others)

    # When it fails and is retried, as often as its policy allows
    for attempt in range(STEADY["max_retries"]):
        await path.happen(story, ids["a"])

        failed = await story.task(ids["a"])
        assert (failed.status, failed.attempt) == (Status.RETRY_PENDING, attempt + 1)
        assert (await story.attempts(ids["a"]))[-1]["trigger"] == path.trigger
        assert await story.rows(*others) == untouched
        assert await story.hooks(ids["a"]) == []
        assert not any(changes.counts["propagations", status] for changes in story.commits for status in Status)
        assert failed.next_retry_at is not None
        story.clock.set(failed.next_retry_at)
        await story.engine.due_loop.run_once()
        assert await story.rows(*others) == untouched

    # Then nothing was sent to anybody but its own start
    await story.deliver()
    assert {request.path for request in story.receiver.requests} == {"/a"}


async def test_a_failure_reported_from_inside_the_call_is_retried_quietly(story: Story) -> None:
    ids = await story.submit(
        story.job("a", on_failure=[story.hook("/failed")]), story.job("child", on("a", "on_failure"))
    )

    async def report_and_accept(_: object) -> web.StreamResponse:
        await story.fail(ids["a"], attempt=0)
        return web.json_response({})

    story.receiver.answer("/a", report_and_accept)
    await story.start()

    assert await story.progress(ids["a"]) == ("RetryPending", 1, 1, 10)
    assert await story.status(ids["child"]) == "Waiting"
    await story.deliver()
    assert story.receiver.requests_to("/failed") == []
    # The late acceptance belongs to an attempt that is over.
    await story.at(10)
    assert await story.progress(ids["a"]) == ("Running", 1, 1, None)


async def test_a_timed_out_attempt_tells_the_receiver_to_stop_but_nobody_that_it_failed(story: Story) -> None:
    id = await story.run_one(
        story.job("a", timeout=30, on_cancel=[story.hook("/stop")], on_failure=[story.hook("/failed")])
    )

    await story.at(30)

    assert await story.progress(id) == ("RetryPending", 1, 1, 40)
    assert await story.hooks(id) == ["cancel:0"]
    assert [request.path for request in story.receiver.requests] == ["/a", "/stop"]


@pytest.mark.parametrize("outcome", ["Success", "Failure"])
async def test_the_last_attempt_alone_is_told(story: Story, outcome: str) -> None:
    hooks = {name: [story.hook(f"/{name}")] for name in ("on_success", "on_failure")}
    ids = await story.run(story.job("a", **hooks), story.job("child", "a"))
    await story.fail(ids["a"])
    await story.at(10)
    await story.fail(ids["a"])
    await story.at(30)

    if outcome == "Success":
        await story.report(ids["a"])
        assert await story.hooks(ids["a"]) == ["success:2"]
        assert await story.status(ids["child"]) == "Pending"
    else:
        await story.fail_for_good(ids["a"])
        assert await story.hooks(ids["a"]) == ["failure:2"]
        assert await story.status(ids["child"]) == "Failure"
