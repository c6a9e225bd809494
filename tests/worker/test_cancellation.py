"""Work whose result is no longer wanted stops, wherever it runs, and what it still returns is not taken."""

from __future__ import annotations

import asyncio
import threading

import pytest

from perdure import Context, Perdure
from tests.engine.driven import eventually
from tests.worker.workshop import MakeWorkshop, Workshop


async def free_again(shop: Workshop) -> None:
    """Wait until nothing runs, not even a thread that nobody waits for."""

    async def nothing_runs() -> bool:
        return not shop.hands.held and not shop.hands.loop._execution.abandoned

    await eventually(nothing_runs)


async def test_an_async_function_is_cancelled_where_it_waits(app: Perdure, make_workshop: MakeWorkshop) -> None:
    heard: list[str] = []

    @app.task
    async def wait_long() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise

    shop = await make_workshop()
    id = await shop.hand_in(wait_long)
    await shop.begin()

    await shop.commands.cancel(id)
    await shop.work()

    assert heard == ["cancelled"]
    assert await shop.status(id) == "Canceled"
    assert await shop.events(id) == [("pending", "running"), ("running", "canceled")]


async def test_a_function_in_a_thread_hears_of_it_when_it_asks(app: Perdure, make_workshop: MakeWorkshop) -> None:
    begun, heard = threading.Event(), threading.Event()

    @app.task
    def compute(ctx: Context) -> None:
        begun.set()
        while not ctx.canceled:
            pass
        heard.set()
        ctx.raise_if_canceled()

    shop = await make_workshop()
    id = await shop.hand_in(compute)
    await shop.begin()
    assert await asyncio.to_thread(begun.wait, 10)

    await shop.commands.cancel(id)

    assert await asyncio.to_thread(heard.wait, 10)
    await free_again(shop)
    await shop.work()
    assert await shop.status(id) == "Canceled"


async def test_a_cancel_on_another_instance_is_noticed_with_the_next_heartbeat(
    app: Perdure, make_workshop: MakeWorkshop
) -> None:
    stopped = asyncio.Event()

    @app.task
    async def wait_long() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    shop = await make_workshop()
    elsewhere = await make_workshop()
    id = await shop.hand_in(wait_long)
    await shop.begin()

    await elsewhere.commands.cancel(id)
    assert not stopped.is_set()
    await shop.show_life()

    async with asyncio.timeout(10):
        await stopped.wait()
    await shop.work()
    assert await shop.status(id) == "Canceled"


async def test_who_does_not_heed_it_keeps_its_place_but_changes_nothing(
    app: Perdure, make_workshop: MakeWorkshop, caplog: pytest.LogCaptureFixture
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    @app.task
    def stubborn() -> str:
        begun.set()
        may_end.wait(30)
        return "too late"

    @app.task
    async def next_one() -> None: ...

    shop = await make_workshop(concurrency=1)
    id = await shop.hand_in(stubborn)
    await shop.begin()
    assert await asyncio.to_thread(begun.wait, 10)
    await shop.commands.cancel(id)
    waiting = await shop.hand_in(next_one)

    # Its thread is busy still: there is no place for another.
    await shop.work()
    assert await shop.status(waiting) == "Pending"
    (told,) = [record for record in caplog.records if "keeps its place" in record.message]
    assert "No place is left: restart this worker" in told.message
    assert (told.fields["task"], told.fields["kind"], told.fields["places_left"]) == (id, "stubborn", 0)  # type: ignore[attr-defined]

    may_end.set()
    await free_again(shop)
    await shop.work()
    assert await shop.status(waiting) == "Success"
    task = await shop.task(id)
    assert (task.status.label, task.result) == ("Canceled", None)


async def test_a_function_that_swallows_its_cancellation_is_canceled_all_the_same(
    app: Perdure, make_workshop: MakeWorkshop
) -> None:
    @app.task
    async def deaf() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "never mind"
        return "unreachable"

    shop = await make_workshop()
    id = await shop.hand_in(deaf)
    await shop.begin()

    await shop.commands.cancel(id)
    await shop.work()

    task = await shop.task(id)
    assert (task.status.label, task.result) == ("Canceled", None)


async def test_stopping_a_batch_stops_what_runs_of_it(app: Perdure, make_workshop: MakeWorkshop) -> None:
    stopped: list[int] = []

    @app.task
    async def wait_long(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(number)

    shop = await make_workshop()
    batch = app.batch("many")
    for number in range(3):
        batch.add(wait_long, number)
    ids = await shop.hand_in_batch(batch)
    await shop.begin()

    await shop.commands.stop_batch((await shop.task(next(iter(ids.values())))).batch_id)
    await shop.work()

    assert sorted(stopped) == [0, 1, 2]
    assert set((await shop.statuses(ids)).values()) == {"Canceled"}
