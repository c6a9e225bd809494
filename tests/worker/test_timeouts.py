"""A task that gives no sign of life for as long as its timeout says has failed; one that does has time."""

from __future__ import annotations

import asyncio

import pytest

from perdure import Context, Perdure, Retry
from tests.worker.workshop import MakeWorkshop


async def test_a_silent_function_times_out_and_is_stopped(app: Perdure, make_workshop: MakeWorkshop) -> None:
    ended: list[str] = []

    @app.task(timeout="10s")
    async def silent() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    shop = await make_workshop()
    id = await shop.hand_in(silent)
    await shop.begin()

    await shop.pass_time(9)
    assert await shop.status(id) == "Running"
    await shop.pass_time(2)
    await shop.work()

    task = await shop.task(id)
    assert (task.status.label, task.failure_reason) == ("Failure", "Timeout")
    assert ended == ["cancelled"]


async def test_a_timeout_is_retried_by_the_policy(app: Perdure, make_workshop: MakeWorkshop) -> None:
    attempts: list[int] = []

    @app.task(timeout="10s", retry=Retry.fixed("1m", max_retries=2, jitter="none"))
    async def slow_at_first(ctx: Context) -> str:
        attempts.append(ctx.attempt)
        if ctx.attempt == 0:
            await asyncio.Event().wait()
        return "done"

    shop = await make_workshop()
    id = await shop.hand_in(slow_at_first)
    await shop.begin()
    await shop.pass_time(11)
    assert await shop.status(id) == "RetryPending"

    await shop.pass_time("1m")
    await shop.work()

    assert (await shop.status(id), attempts) == ("Success", [0, 1])
    first, _ = await shop.attempts(id)
    assert (first["trigger"], first["outcome"]) == ("timeout", "failure")


@pytest.mark.parametrize("sign", ["heartbeat", "progress"])
async def test_a_sign_of_life_begins_the_time_afresh(app: Perdure, make_workshop: MakeWorkshop, sign: str) -> None:
    contexts: list[Context] = []
    may_end = asyncio.Event()

    @app.task(timeout="10s")
    async def long_work(ctx: Context) -> None:
        contexts.append(ctx)
        await may_end.wait()

    shop = await make_workshop()
    id = await shop.hand_in(long_work)
    await shop.begin()
    for _ in range(5):
        await shop.pass_time(8)
        if sign == "heartbeat":
            contexts[0].heartbeat()
        else:
            contexts[0].progress(3, 7)
        await shop.show_life()
        assert await shop.status(id) == "Running"
    may_end.set()
    await shop.work()

    assert await shop.status(id) == "Success"


async def test_a_worker_that_lives_is_no_sign_of_life_of_its_tasks(app: Perdure, make_workshop: MakeWorkshop) -> None:
    @app.task(timeout="60s")
    async def stuck() -> None:
        await asyncio.Event().wait()

    shop = await make_workshop()
    id = await shop.hand_in(stuck)
    await shop.begin()
    for _ in range(6):
        await shop.pass_time(9)
        await shop.show_life()
    assert await shop.status(id) == "Running"

    await shop.pass_time(9)

    assert (await shop.task(id)).failure_reason == "Timeout"


async def test_progress_is_shown(app: Perdure, make_workshop: MakeWorkshop) -> None:
    contexts: list[Context] = []
    may_end = asyncio.Event()

    @app.task
    async def count(ctx: Context) -> None:
        contexts.append(ctx)
        await may_end.wait()

    shop = await make_workshop()
    id = await shop.hand_in(count)
    await shop.begin()

    contexts[0].progress(1, 10)
    contexts[0].progress(4)
    await shop.show_life()

    task = await shop.task(id)
    assert (task.success, task.expected_count) == (4, 10)
    may_end.set()
    await shop.work()


@pytest.mark.parametrize(("done", "total"), [(-1, None), (1.5, None), (1, -1), ("3", None), (2**63, None)])
def test_progress_that_cannot_be_is_refused(done: int, total: int | None) -> None:
    context = Context("task", "batch", "kind", "name", 0)

    with pytest.raises(ValueError, match="whole numbers from zero"):
        context.progress(done, total)
