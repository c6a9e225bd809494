"""A worker that is told to stop takes nothing more, finishes what it can, and gives back the rest."""

from __future__ import annotations

import asyncio

from perdure import Context, Perdure, Retry
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
