"""Applications in a simulation: their functions run in virtual time, and their workers can be killed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from perdure import Context, Final, Perdure, Retry, RetryAfter, TaskNotSuccessful
from perdure.testing import Simulation, StuckFunction


@pytest.fixture
def app(tmp_path: Path) -> Perdure:
    """As a program has it: with a database of its own."""
    return Perdure(f"sqlite:///{tmp_path}/own.db")


async def test_functions_are_retried_in_virtual_time(sim: Simulation, app: Perdure) -> None:
    @app.task(retry=Retry.exponential("1m", max_retries=3, jitter="none"))
    async def charge(order: int, ctx: Context) -> str:
        if ctx.attempt < 2:
            raise ConnectionError("the bank is away")
        return f"receipt for {order}"

    await sim.use(app)
    task = await charge.submit(7)
    await sim.run_until_idle()

    assert await task.result() == "receipt for 7"
    assert [attempt.after_secs for attempt in sim.attempts(task)] == [0, 60, 180]
    assert {attempt.code for attempt in sim.attempts(task)[:2]} == {"ConnectionError"}
    assert "the bank is away" in str(sim.attempts(task)[0].reason)


async def test_what_functions_raise_decides(sim: Simulation, app: Perdure) -> None:
    @app.task(retry=Retry.fixed("10s", max_retries=3, jitter="none"))
    async def fetch(page: int, ctx: Context) -> None:
        if ctx.attempt == 0:
            raise RetryAfter("5m")
        if page == 404:
            raise Final("there is no such page")

    await sim.use(app)
    found, missing = await fetch.submit_many([1, 404])
    await sim.run_until_idle()

    assert sim.timeline(found)[-1] == (300, "Success")
    with pytest.raises(TaskNotSuccessful, match="there is no such page"):
        await missing.result()
    sim.assert_attempts(missing, 2)


async def test_plain_functions_run_as_well(sim: Simulation, app: Perdure) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    await sim.use(app)
    task = double.submit_blocking(21)
    await sim.run_until_idle()

    assert await task.result() == 42


async def test_a_batch_of_functions_recovers_in_the_middle(sim: Simulation, app: Perdure) -> None:
    @app.task
    async def reserve() -> str:
        return "shelf 3"

    @app.task(retry=Retry.fixed("1h", max_retries=2, jitter="none"))
    async def pay(ctx: Context) -> None:
        if ctx.attempt == 0:
            raise ConnectionError

    @app.task
    async def ship(ctx: Context) -> str:
        return f"from {ctx.result_of(reserve)}"

    await sim.use(app)
    with app.batch("order 7") as batch:
        reserved = batch.add(reserve)
        paid = batch.add(pay, after=reserved)
        shipped = batch.add(ship, after=[reserved, paid])
    await sim.advance("59m")
    assert [sim.status(node) for node in (reserved, paid, shipped)] == ["Success", "RetryPending", "Waiting"]

    await sim.run_until_idle()
    assert await shipped.handle.result() == "from shelf 3"
    assert sim.timeline(shipped)[-1] == (3600, "Success")


async def test_sleep_takes_no_time_but_that_of_the_simulation(sim: Simulation, app: Perdure) -> None:
    @app.task(timeout="10m")
    async def export(ctx: Context) -> None:
        for done in range(8):
            await asyncio.sleep(3600 / 8)
            ctx.progress(done, 8)

    await sim.use(app)
    task = await export.submit()

    await sim.advance("59m")
    sim.assert_status(task, "Running")
    assert (await task.task()).success == 6
    await sim.run_until_idle()
    assert sim.timeline(task) == [(0, "Pending"), (0, "Running"), (3600, "Success")]


async def test_many_sleep_side_by_side(sim: Simulation, app: Perdure) -> None:
    ended: list[int] = []

    @app.task
    async def wait(seconds: int) -> None:
        await asyncio.gather(asyncio.sleep(seconds), asyncio.sleep(1))
        ended.append(seconds)

    await sim.use(app)
    tasks = await wait.submit_many([30, 10, 20])
    await sim.run_until_idle()

    assert ended == [10, 20, 30]
    assert [sim.timeline(task)[-1].seconds for task in tasks] == [30, 10, 20]


async def test_a_function_that_gives_no_sign_of_life_times_out(sim: Simulation, app: Perdure) -> None:
    stopped: list[int] = []

    @app.task(timeout="1m", retry=Retry.fixed("10s", max_retries=1, jitter="none"))
    async def hang(ctx: Context) -> str:
        try:
            await asyncio.sleep(3600 if ctx.attempt == 0 else 1)
        except asyncio.CancelledError:
            stopped.append(ctx.attempt)
            raise
        return "done"

    await sim.use(app)
    task = await hang.submit()
    await sim.run_until_idle()

    assert sim.attempts(task)[0].trigger == "timeout"
    assert sim.timeline(task)[-1] == (71, "Success")
    assert stopped == [0]


async def test_a_killed_worker_reports_nothing_and_another_takes_over(sim: Simulation, app: Perdure) -> None:
    keys: list[str] = []

    @app.task(timeout="10m", retry=Retry.fixed("10s", max_retries=1, jitter="none"))
    async def charge(ctx: Context) -> str:
        keys.append(ctx.task_id)
        await asyncio.sleep(300)
        return f"attempt {ctx.attempt}"

    await sim.use(app)
    task = await charge.submit()
    await sim.advance("2m")
    sim.assert_status(task, "Running")

    assert await sim.kill_worker() == [task.id]
    sim.assert_status(task, "Running")
    await sim.run_until_idle()

    assert await task.result() == "attempt 1"
    first, second = sim.attempts(task)
    assert (first.outcome, first.trigger, first.instance) == ("lost", "worker_lost", "worker-1")
    assert (second.outcome, second.instance) == ("success", "worker-2")
    # The lease lasts half a minute from the last sign of life; then comes the wait of the policy.
    assert (first.ended_at, second.after_secs, first.charged) == (second.started_at - timedelta(seconds=10), 160, False)
    assert keys == [task.id, task.id]


async def test_a_worker_is_killed_between_its_work_and_its_report(sim: Simulation, app: Perdure) -> None:
    """The worst moment: the work is done, and nobody knows."""
    charged: list[str] = []

    @app.task(timeout="10m", retry=Retry.fixed("10s", max_retries=1, jitter="none"))
    async def charge(ctx: Context) -> None:
        charged.append(ctx.task_id)

    await sim.use(app)
    task = await charge.submit()

    assert await sim.kill_worker() == [task.id]
    assert charged == [task.id]
    await sim.run_until_idle()

    sim.assert_status(task, "Success")
    sim.assert_attempts(task, 2)
    assert charged == [task.id, task.id]


async def test_workers_are_killed_on_postgres_as_well(postgres_url: str, app: Perdure) -> None:
    @app.task(timeout="10m", retry=Retry.fixed("10s", max_retries=1, jitter="none"))
    async def charge() -> str:
        await asyncio.sleep(30)
        return "receipt"

    async with Simulation(postgres_url) as sim:
        await sim.use(app)
        task = await charge.submit()
        await sim.advance("5s")
        assert await sim.kill_worker() == [task.id]
        await sim.run_until_idle()

        assert await task.result() == "receipt"
        assert sim.timeline(task)[-1] == (5 + 30 + 10 + 30, "Success")


async def test_killing_an_idle_worker_loses_nothing(sim: Simulation, app: Perdure) -> None:
    await sim.use(app)

    assert await sim.kill_worker() == []


async def test_a_function_that_waits_for_something_real_for_ever_is_named(tmp_path: Path, app: Perdure) -> None:
    @app.task
    async def hang() -> None:
        await asyncio.Event().wait()

    async with Simulation(f"sqlite:///{tmp_path}/simulation.db", patience_secs=0.05) as sim:
        await sim.use(app)
        await hang.submit()
        with pytest.raises(StuckFunction, match="hang did not end within"):
            await sim.run_until_idle()


async def test_functions_submit_further_tasks(sim: Simulation, app: Perdure) -> None:
    @app.task
    async def remind(left: int) -> None:
        if left:
            await remind.options(delay="1d").submit(left - 1)

    await sim.use(app)
    began = sim.now
    await remind.submit(13)
    await sim.run_until_idle()

    assert (sim.now - began).days == 13


async def test_an_application_is_its_own_again_afterwards(tmp_path: Path, app: Perdure) -> None:
    @app.task
    async def greet() -> None: ...

    before = await greet.submit()
    for name in ("first", "second"):
        async with Simulation(f"sqlite:///{tmp_path}/{name}.db") as sim:
            await sim.use(app)
            task = await greet.submit()
            await sim.run_until_idle()
            sim.assert_status(task, "Success")
    assert asyncio.sleep.__module__ == "asyncio.tasks"
    assert await before.status() == "Pending"
    app.close()
