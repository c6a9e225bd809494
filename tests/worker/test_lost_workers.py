"""A worker that is gone, or cut off, loses its tasks to others; what it says afterwards counts no more."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from perdure import Context, Perdure, Retry, TaskHandle
from perdure.config import Engine, Server, Settings
from tests.engine.driven import eventually
from tests.engine.outage import Outage
from tests.worker.workshop import MakeWorkshop

LEASE = 30
MOST_LOSSES = 5


async def test_a_task_of_a_lost_worker_is_taken_over_and_costs_no_retry(
    app: Perdure, make_workshop: MakeWorkshop
) -> None:
    attempts: list[tuple[int, str]] = []
    never = asyncio.Event()

    @app.task(timeout="10m", retry=Retry.fixed("1m", max_retries=1))
    async def charge(ctx: Context) -> str:
        attempts.append((ctx.attempt, ctx.idempotency_key.rpartition(":")[2]))
        if ctx.attempt == 0:
            await never.wait()
        return "paid"

    lost, other = await make_workshop(), await make_workshop()
    id = await lost.hand_in(charge)
    await lost.begin()

    # The first gives no more sign of life.
    await other.pass_time(LEASE + 1)
    for _ in range(20):
        await other.pass_time("1m")
        await other.work()

    task = await other.task(id)
    assert (task.status.label, task.retry_count) == ("Success", 0)
    first, second = await other.attempts(id)
    assert (first["trigger"], first["instance"], first["charged"]) == ("worker_lost", lost.instance.id, False)
    assert second["instance"] == other.instance.id
    assert [number for number, _ in attempts] == [0, 1]


async def test_what_a_lost_worker_returns_is_refused(
    app: Perdure, make_workshop: MakeWorkshop, caplog: pytest.LogCaptureFixture
) -> None:
    may_end = asyncio.Event()

    @app.task(timeout="10m", retry=Retry.fixed("1s", max_retries=1))
    async def charge(ctx: Context) -> str:
        if ctx.attempt == 0:
            await may_end.wait()
        return f"by attempt {ctx.attempt}"

    lost, other = await make_workshop(), await make_workshop()
    id = await lost.hand_in(charge)
    await lost.begin()
    await other.pass_time(LEASE + 1)
    await other.pass_time("1m")
    await other.work()
    assert (await other.task(id)).result == '"by attempt 1"'

    # It was only slow, and comes back.
    may_end.set()
    with caplog.at_level(logging.WARNING, "perdure.worker"):
        await lost.work()

    assert (await other.task(id)).result == '"by attempt 1"'
    assert "a result came too late and was not taken" in caplog.messages


async def test_a_worker_that_lives_keeps_its_tasks(app: Perdure, make_workshop: MakeWorkshop) -> None:
    may_end = asyncio.Event()

    @app.task(timeout="10m")
    async def long_work() -> None:
        await may_end.wait()

    shop = await make_workshop()
    id = await shop.hand_in(long_work)
    await shop.begin()
    for _ in range(10):
        await shop.pass_time(LEASE - 5)
        await shop.show_life()
    assert await shop.status(id) == "Running"

    may_end.set()
    await shop.work()
    assert await shop.status(id) == "Success"


async def test_a_task_that_takes_worker_after_worker_along_is_stopped(
    app: Perdure, make_workshop: MakeWorkshop
) -> None:
    begun = 0

    @app.task(timeout="10m", retry=Retry.immediate(2))
    async def poison() -> None:
        nonlocal begun
        begun += 1
        await asyncio.Event().wait()

    shop = await make_workshop()
    id = await shop.hand_in(poison)
    for _ in range(50):
        victim = await make_workshop()
        await victim.begin()
        await shop.pass_time(LEASE + 1)
        await shop.pass_time("1h")
        if not (await shop.task(id)).status.is_live:
            break

    task = await shop.task(id)
    assert task.status.label == "Failure"
    # Its losses are for free up to a point; then they cost retries as other failures do.
    assert begun == 1 + MOST_LOSSES + 2


async def test_results_wait_for_a_database_that_is_away(
    app: Perdure, make_workshop: MakeWorkshop, outage: Outage
) -> None:
    may_end = asyncio.Event()

    @app.task
    async def charge() -> str:
        await may_end.wait()
        return "paid"

    shop = await make_workshop()
    id = await shop.hand_in(charge)
    await shop.begin()

    await outage.begin()
    may_end.set()
    await shop.hands.loop.settled()
    with pytest.raises(Exception, match="does not answer"):
        await shop.hands.loop.run_once()
    assert shop.hands.loop.unreported == 1
    await outage.end()
    await shop.work()

    assert (await shop.task(id)).result == '"paid"'
    assert await shop.events(id) == [("pending", "running"), ("running", "success")]


async def test_signs_of_life_wait_for_a_database_that_is_away(
    app: Perdure, make_workshop: MakeWorkshop, outage: Outage
) -> None:
    contexts: list[Context] = []
    may_end = asyncio.Event()

    @app.task
    async def count(ctx: Context) -> None:
        contexts.append(ctx)
        await may_end.wait()

    shop = await make_workshop()
    id = await shop.hand_in(count)
    await shop.begin()

    await outage.begin()
    contexts[0].progress(3, 10)
    with pytest.raises(Exception, match="does not answer"):
        await shop.hands.signs.run_once()
    await outage.end()
    await shop.show_life()

    assert (await shop.task(id)).success == 3
    may_end.set()
    await shop.work()


async def test_a_function_that_blocks_its_worker_costs_others_no_lease(tmp_path: Path) -> None:
    """An async function must not block. If one does, the tasks beside it are not run a second time for that."""
    file = tmp_path / "jobs.db"
    server = Server(database_url=f"sqlite:///{file}")
    settings = Settings(server=server, engine=Engine(worker_lease_secs=1, worker_heartbeat_secs=0.3))
    may_end = asyncio.Event()

    def read_lease() -> int:
        with closing(sqlite3.connect(file)) as connection:
            (lease,) = connection.execute("SELECT lease_until FROM task WHERE kind = 'innocent'").fetchone()
        return int(lease)

    async with Perdure(settings=settings) as app:

        @app.task(retry=Retry.immediate(3))
        async def innocent(ctx: Context) -> int:
            await may_end.wait()
            return ctx.attempt

        @app.task
        async def blocking() -> int:
            first, patience = read_lease(), 2000
            # Renewed a whole second further, while nobody else in this event loop can do anything.
            while patience and read_lease() < first + 1_000_000:
                time.sleep(0.01)  # noqa: ASYNC251 - that is what must not harm others
                patience -= 1
            may_end.set()
            return patience

        async with app.worker():
            task = await innocent.submit()
            await eventually(lambda: is_running(task))
            assert await (await blocking.submit()).result(timeout=60) > 0
            assert await task.result(timeout=60) == 0


async def is_running(task: TaskHandle[int]) -> bool:
    return await task.status() == "Running"
