"""A worker that is told to stop takes nothing more, finishes what it can, and gives back the rest."""

from __future__ import annotations

import asyncio
import threading
import time

from perdure import Context, Perdure, Retry
from tests.engine.driven import eventually
from tests.worker.workshop import MakeWorkshop


async def test_what_runs_is_finished_and_written(app: Perdure, make_workshop: MakeWorkshop) -> None:
    may_end = asyncio.Event()

    @app.task
    async def charge() -> str:
        await may_end.wait()
        return "paid"

    shop = await make_workshop(grace_secs=30)
    running = await shop.hand_in(charge)
    await shop.begin()
    waiting = await shop.hand_in(charge)

    stopping = asyncio.create_task(shop.hands.stop())
    await asyncio.sleep(0)
    may_end.set()
    await stopping

    assert (await shop.task(running)).result == '"paid"'
    assert await shop.status(waiting) == "Pending"


async def test_what_does_not_end_in_time_is_given_back_at_once_and_costs_no_retry(
    app: Perdure, make_workshop: MakeWorkshop
) -> None:
    ended: list[str] = []

    @app.task(retry=Retry.fixed("1m", max_retries=3))
    async def long_work(ctx: Context) -> str:
        if ctx.attempt == 0:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cancelled")
        return "done"

    shop = await make_workshop(grace_secs=0)
    id = await shop.hand_in(long_work)
    await shop.begin()

    await shop.hands.stop()

    assert ended == ["cancelled"]
    task = await shop.task(id)
    assert (task.status.label, task.retry_count, task.locked_by) == ("RetryPending", 0, None)
    (attempt,) = await shop.attempts(id)
    assert (attempt["trigger"], attempt["charged"]) == ("worker_lost", False)

    other = await make_workshop()
    await other.pass_time("1h")
    await other.work()
    assert await other.status(id) == "Success"


async def test_a_function_in_a_thread_is_told_and_has_a_moment_to_clean_up(
    app: Perdure, make_workshop: MakeWorkshop
) -> None:
    begun, cleaned = threading.Event(), threading.Event()

    @app.task(retry=Retry.fixed("1m", max_retries=3))
    def long_work(ctx: Context) -> str:
        begun.set()
        while not ctx.canceled:
            time.sleep(0.005)
        cleaned.set()
        return "half of it"

    shop = await make_workshop(grace_secs=0)
    id = await shop.hand_in(long_work)
    await shop.begin()
    assert await asyncio.to_thread(begun.wait, 10)

    await shop.hands.stop()

    assert cleaned.is_set()
    task = await shop.task(id)
    assert (task.status.label, task.retry_count, task.result) == ("RetryPending", 0, None)


async def test_a_function_in_a_thread_that_comes_to_its_end_after_all_is_heard(
    app: Perdure, make_workshop: MakeWorkshop
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    @app.task
    def long_work() -> str:
        begun.set()
        may_end.wait(10)
        return "all of it"

    shop = await make_workshop(grace_secs=0)
    id = await shop.hand_in(long_work)
    await shop.begin()
    assert await asyncio.to_thread(begun.wait, 10)

    async def is_told() -> bool:
        return all(held.context._stopped for held in shop.hands.held)

    stopping = asyncio.create_task(shop.hands.stop())
    await eventually(is_told)
    may_end.set()
    await stopping

    assert (await shop.task(id)).result == '"all of it"'
