"""The HTTP receiver that webhook tests call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from tests.support.receiver import ReceivedRequest, Receiver


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def test_a_request_is_recorded_as_it_was_sent(receiver: Receiver, session: aiohttp.ClientSession) -> None:
    async with session.put(
        receiver.url("/hook"), params={"task": "7"}, json={"a": 1}, headers={"X-Signature": "s"}
    ) as response:
        assert response.status == 200
        assert await response.json() == {}

    [request] = receiver.requests
    assert (request.number, request.method, request.path) == (1, "PUT", "/hook")
    assert request.query == {"task": "7"}
    assert request.headers["x-signature"] == "s"
    assert request.body == b'{"a": 1}'
    assert request.json() == {"a": 1}


async def test_answers_are_given_in_the_order_scripted(receiver: Receiver, session: aiohttp.ClientSession) -> None:
    receiver.answer("/hook", status=503, times=2)
    receiver.answer("/hook", status=429, json={"why": "busy"}, headers={"Retry-After": "3"})

    statuses = []
    for _ in range(4):
        async with session.post(receiver.url("/hook")) as response:
            statuses.append((response.status, await response.json(), response.headers.get("Retry-After")))

    assert statuses == [(503, {}, None), (503, {}, None), (429, {"why": "busy"}, "3"), (200, {}, None)]


async def test_an_answer_without_end_is_given_every_time(receiver: Receiver, session: aiohttp.ClientSession) -> None:
    receiver.answer("/hook", body=b"<gone>", status=410, times=None)

    for _ in range(3):
        async with session.post(receiver.url("/hook")) as response:
            assert (response.status, await response.read()) == (410, b"<gone>")


async def test_a_function_can_answer(receiver: Receiver, session: aiohttp.ClientSession) -> None:
    async def echo(request: ReceivedRequest) -> web.Response:
        return web.json_response({"got": request.json()})

    receiver.answer("/echo", echo)

    async with session.post(receiver.url("/echo"), json=[1, 2]) as response:
        assert await response.json() == {"got": [1, 2]}


async def test_a_function_that_fails_fails_the_test(session: aiohttp.ClientSession) -> None:
    async def fail(_: ReceivedRequest) -> web.Response:
        raise ValueError("wrong")

    receiver = await Receiver().__aenter__()
    receiver.answer("/hook", fail)
    async with session.post(receiver.url("/hook")) as response:
        assert response.status == 500

    with pytest.raises(ExceptionGroup, match="Answers of the receiver failed") as raised:
        await receiver.__aexit__()
    assert [str(error) for error in raised.value.exceptions] == ["wrong"]


async def test_a_connection_can_be_broken(receiver: Receiver, session: aiohttp.ClientSession) -> None:
    receiver.answer("/hook", disconnect=True)

    with pytest.raises(aiohttp.ClientConnectionError):
        await session.post(receiver.url("/hook"))

    assert len(receiver.requests) == 1


async def test_an_answer_can_be_held_back(receiver: Receiver, session: aiohttp.ClientSession) -> None:
    receiver.answer("/hook", delay=60)

    with pytest.raises(TimeoutError):
        await session.post(receiver.url("/hook"), timeout=aiohttp.ClientTimeout(total=0.05))

    assert len(receiver.requests) == 1


async def test_leaving_does_not_wait_for_answers_held_back(session: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(5):
        async with Receiver() as receiver:
            receiver.answer("/hook", delay=60)
            call = asyncio.create_task(session.post(receiver.url("/hook")))
            await receiver.wait_for(1)
        with pytest.raises(aiohttp.ClientConnectionError):
            await call


async def test_waiting_returns_once_enough_have_arrived(receiver: Receiver, session: aiohttp.ClientSession) -> None:
    waiting = asyncio.create_task(receiver.wait_for(2, path="/b"))

    for path in ("/a", "/b", "/a", "/b"):
        async with session.post(receiver.url(path)):
            pass

    assert [request.number for request in await waiting][:2] == [2, 4]


async def test_waiting_in_vain_tells_what_did_arrive(receiver: Receiver, session: aiohttp.ClientSession) -> None:
    async with session.get(receiver.url("/other")):
        pass

    with pytest.raises(AssertionError, match=r"Expected 1 requests to /hook .* but 0 arrived.*GET /other"):
        await receiver.wait_for(1, path="/hook", timeout=0.01)
