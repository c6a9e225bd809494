"""Stopping: nothing new is claimed, what is under way is finished, and what is gathered is written."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from perdure.assemble import Instance, make_instance
from perdure.config import Server, Settings
from perdure.domain.states import Status
from tests.engine.definitions import draft, task, webhook
from tests.engine.driven import HOST_URL, Driven
from tests.engine.outage import held_up
from tests.support.receiver import ReceivedRequest, Receiver


@pytest.fixture
def answer() -> asyncio.Event:
    """The receiver answers once this is set."""
    return asyncio.Event()


@pytest.fixture
def slow_url(receiver: Receiver, answer: asyncio.Event) -> str:
    async def accept_later(_: ReceivedRequest) -> web.Response:
        await answer.wait()
        return web.Response()

    receiver.answer("/slow", accept_later, times=None)
    return receiver.url("/slow")


async def test_calls_under_way_are_finished_and_nothing_new_is_claimed(
    driven: Driven, receiver: Receiver, slow_url: str, answer: asyncio.Event
) -> None:
    await driven.engine.start()
    first = await driven.submit_one(task(on_start=webhook(slow_url)))
    await receiver.wait_for(1)
    stop = asyncio.create_task(driven.engine.stop())
    await asyncio.sleep(0)
    second = await driven.submit_one(task(on_start=webhook(slow_url)))

    answer.set()
    await stop

    assert await driven.status(first) == "Running"
    assert await driven.status(second) == "Pending"
    assert len(receiver.requests) == 1


async def test_deliveries_under_way_are_finished(
    driven: Driven, receiver: Receiver, slow_url: str, answer: asyncio.Event
) -> None:
    id = await driven.submit_one(task(on_start=webhook(receiver.url()), on_success=[webhook(slow_url)]))
    await driven.start()
    await driven.engine.start()
    await driven.report(id)
    await receiver.wait_for(1, "/slow")
    stop = asyncio.create_task(driven.engine.stop())
    await asyncio.sleep(0)

    answer.set()
    await stop

    assert (await driven.deliveries(id))["success:0"]["status"] == "success"


async def impatient(database_url: str) -> Instance:
    """An instance that waits for nothing when it stops."""
    settings = Settings(server=Server(database_url=database_url, shutdown_grace_secs=0))
    instance = make_instance(settings, HOST_URL)
    await instance.store.open()
    return instance


async def test_calls_that_do_not_end_are_cut_off_and_left_to_their_lease(
    driven: Driven, database_url: str, receiver: Receiver, slow_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    instance = await impatient(database_url)
    await instance.engine.start()
    submitted = await instance.engine.commands.submit(draft([task(on_start=webhook(slow_url))]))
    await receiver.wait_for(1)

    await instance.engine.stop()
    await instance.store.close()

    assert any(message.startswith("an on_start call was cut off") for message in caplog.messages)
    left = await driven.task(submitted.tasks[0].id)
    assert (left.status, left.locked_by) == (Status.CLAIMED, instance.id)


async def test_a_claim_that_is_made_during_the_stop_is_sent(
    driven: Driven, database_url: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await driven.submit_one(task(on_start=webhook(receiver.url())))
    begun = asyncio.Event()
    run_once = driven.engine.start_loop.run_once

    async def claim_and_tell() -> bool:
        begun.set()
        return await run_once()

    monkeypatch.setattr(driven.engine.start_loop, "run_once", claim_and_tell)
    async with held_up(database_url):
        await driven.engine.start()
        await begun.wait()
        stop = asyncio.create_task(driven.engine.stop())
        await asyncio.sleep(0)
    await stop

    assert await driven.status(id) == "Running"
    assert len(receiver.requests) == 1


async def test_changes_that_were_asked_for_are_written(driven: Driven) -> None:
    change = asyncio.create_task(driven.submit_one(task()))
    await asyncio.sleep(0)

    await driven.engine.stop()

    assert await driven.status(await change) == "Pending"


async def test_reports_are_taken_while_calls_are_being_finished(
    driven: Driven, receiver: Receiver, slow_url: str, answer: asyncio.Event
) -> None:
    id = await driven.submit_one(task(on_start=webhook(receiver.url())))
    await driven.start()
    await driven.engine.start()
    await driven.submit_one(task(on_start=webhook(slow_url)))
    await receiver.wait_for(1, "/slow")
    stop = asyncio.create_task(driven.engine.stop())
    await asyncio.sleep(0)

    reported = await driven.report(id)

    assert reported.status is Status.SUCCESS
    assert not stop.done()
    answer.set()
    await stop


async def test_an_engine_that_never_ran_stops_as_well(driven: Driven) -> None:
    await driven.engine.stop()
    await driven.engine.stop()
