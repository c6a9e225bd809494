"""Connections that serve again, and those that must not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any
from unittest.mock import Mock

import pytest
import uvloop

from perdure.webhooks.answer import Answer
from perdure.webhooks.connecting import Connector
from perdure.webhooks.connection import Connection
from perdure.webhooks.egress import OPEN
from perdure.webhooks.failures import BadAnswer, ConnectionLost
from perdure.webhooks.guard import OpenGuard
from perdure.webhooks.pool import Pool
from perdure.webhooks.sender import HttpSender
from perdure.webhooks.target import target_of
from tests.webhooks.support import MakeSender, RawReceiver, Script, StartRaw, saying, saying_then_silent, webhook_to

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
REQUEST = b"GET / HTTP/1.1\r\nHost: receiver.test\r\n\r\n"


def serving(text: bytes) -> Script:
    """Gives the same answer to every request of a connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(text)
            await reader.readuntil(b"\r\n\r\n")

    return serve


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    pool = Pool(Connector(OpenGuard()), limit=2)
    yield pool
    await pool.close()


async def exchange(pool: Pool, raw: RawReceiver) -> Connection:
    """A connection that has served, and rests."""
    deadline = asyncio.get_running_loop().time() + 10
    connection = await pool.connect(target_of(raw.url()), deadline)
    await connection.exchange(REQUEST, Answer(100), deadline)
    pool.give_back(connection)
    return connection


async def until_lost(connection: Connection) -> None:
    async with asyncio.timeout(10):
        while connection.usable:  # noqa: ASYNC110 - a connection tells its pool and nobody else
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    "text",
    [
        OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Trailer: 1\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
    ],
    ids=["length", "chunked", "1.0 kept alive", "204", "304", "interim", "bare line feeds"],
)
async def test_after_a_whole_answer_a_connection_serves_again(
    text: bytes, sender: HttpSender, start_raw: StartRaw
) -> None:
    raw = await start_raw(serving(text))
    for _ in range(3):
        assert (await sender.send(webhook_to(raw.url(), timeout_secs=5))).error is None
    assert len(raw.heads) == 1


@pytest.mark.parametrize(
    "text",
    [
        OK + b"H",
        OK + OK,
        OK + b"\x00",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + b"x" * 99999,
    ],
    ids=["a letter", "an answer", "a null", "a body of 204", "1.0", "close", "upgrade", "a long body"],
)
async def test_after_anything_else_it_does_not(text: bytes, make_sender: MakeSender, start_raw: StartRaw) -> None:
    sender = await make_sender(response_limit_bytes=100)
    raw = await start_raw(serving(text))
    for _ in range(3):
        assert (await sender.send(webhook_to(raw.url(), timeout_secs=5))).error is None
    assert len(raw.heads) == 3


async def test_the_body_of_an_answer_to_head_is_not_waited_for(sender: HttpSender, start_raw: StartRaw) -> None:
    raw = await start_raw(serving(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"))
    for _ in range(2):
        answer = await sender.send(webhook_to(raw.url(), "HEAD", timeout_secs=5))
        assert (answer.status, answer.body, answer.truncated) == (200, b"", False)
    assert len(raw.heads) == 1


async def test_one_that_was_closed_while_it_rested_is_not_taken(pool: Pool, start_raw: StartRaw) -> None:
    raw = await start_raw(saying(OK))
    connection = await exchange(pool, raw)
    await until_lost(connection)
    assert pool.take(connection.destination) is None


async def test_one_that_speaks_unasked_is_not_taken(pool: Pool, start_raw: StartRaw) -> None:
    go_on = asyncio.Event()

    async def answer_twice(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await go_on.wait()
        writer.write(OK)
        await asyncio.Event().wait()

    connection = await exchange(pool, await start_raw(answer_twice))
    go_on.set()
    await until_lost(connection)
    assert pool.take(connection.destination) is None


async def test_a_resting_one_is_taken_once(pool: Pool, start_raw: StartRaw) -> None:
    connection = await exchange(pool, await start_raw(serving(OK)))
    assert pool.take("http://elsewhere.test") is None
    assert pool.take(connection.destination) is connection
    assert pool.take(connection.destination) is None


async def test_one_that_rested_for_too_long_is_not_taken(
    pool: Pool, start_raw: StartRaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await exchange(pool, await start_raw(serving(OK)))
    monkeypatch.setattr("perdure.webhooks.pool._LONGEST_REST_SECS", 0.0)
    assert pool.take(connection.destination) is None
    assert not connection.usable


async def test_one_that_nobody_needs_is_closed(
    pool: Pool, start_raw: StartRaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.webhooks.pool._LONGEST_REST_SECS", 0.02)
    closed = asyncio.Event()

    async def notice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        assert await reader.read() == b""
        closed.set()

    await exchange(pool, await start_raw(notice))
    await asyncio.wait_for(closed.wait(), 10)


async def test_beyond_the_limit_the_one_that_rested_longest_makes_room(pool: Pool, start_raw: StartRaw) -> None:
    first, second, third = [await exchange(pool, await start_raw(serving(OK))) for _ in range(3)]
    assert not first.usable
    assert pool.take(second.destination) is second
    assert pool.take(third.destination) is third


@pytest.mark.parametrize("verb", ["GET", "PUT", "POST"])
async def test_what_was_written_is_not_written_again(verb: str, sender: HttpSender, start_raw: StartRaw) -> None:
    requests = 0

    async def answer_the_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        requests += 1
        writer.write(OK)
        await reader.readuntil(b"\r\n\r\n")
        requests += 1

    raw = await start_raw(answer_the_first)
    assert (await sender.send(webhook_to(raw.url(), verb))).accepted
    answer = await sender.send(webhook_to(raw.url(), verb))

    assert (answer.status, answer.error_code) == (None, "connection_error")
    assert (requests, len(raw.heads)) == (2, 1)


async def test_closing_ends_the_calls_under_way(make_sender: MakeSender, start_raw: StartRaw) -> None:
    asked = asyncio.Event()

    async def say_nothing(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        asked.set()
        await asyncio.Event().wait()

    raw = await start_raw(say_nothing)
    sender = await make_sender()
    call = asyncio.create_task(sender.send(webhook_to(raw.url())))
    await asyncio.wait_for(asked.wait(), 10)
    await sender.close()

    answer = await asyncio.wait_for(call, 5)
    assert answer.error_code == "connection_error"
    assert answer.describe() == f"connection to 127.0.0.1:{raw.port} was lost"


async def test_a_lost_connection_takes_no_request() -> None:
    connection = Connection("http://receiver.test", Mock())
    connection.connection_made(Mock())
    connection.connection_lost(None)
    with pytest.raises(ConnectionLost):
        await connection.exchange(REQUEST, Answer(100), 0.0)


async def test_who_spoke_before_the_request_was_written_gets_none() -> None:
    transport = Mock()
    connection = Connection("http://receiver.test", Mock())
    connection.connection_made(transport)
    connection.data_received(b"220 mail.test ESMTP\r\n")
    with pytest.raises(BadAnswer, match=r"220 mail\.test"):
        await connection.exchange(REQUEST, Answer(100), 0.0)
    transport.write.assert_not_called()


async def test_who_sends_interim_answers_without_end_is_not_read_any_further() -> None:
    transport = Mock()
    connection = Connection("http://receiver.test", Mock())
    connection.connection_made(transport)
    deadline = asyncio.get_running_loop().time() + 60
    call = asyncio.create_task(connection.exchange(REQUEST, Answer(100), deadline))
    await asyncio.sleep(0)
    for _ in range(50):
        connection.data_received(b"HTTP/1.1 102 Processing\r\n\r\n")
    transport.pause_reading.assert_not_called()
    for _ in range(51):
        connection.data_received(b"HTTP/1.1 102 Processing\r\n\r\n")
    transport.pause_reading.assert_called_once_with()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    transport.abort.assert_called_once_with()


async def _serve_close_and_silence() -> None:
    sender = HttpSender(concurrency=4, connect_timeout_secs=5, response_limit_bytes=100, egress=OPEN)
    async with RawReceiver(serving(OK)) as kept, RawReceiver(saying(b"HTTP/1.1 200 OK\r\n\r\nall")) as closed:
        assert (await sender.send(webhook_to(kept.url()))).accepted
        assert (await sender.send(webhook_to(kept.url("/again")))).accepted
        assert len(kept.heads) == 1
        assert (await sender.send(webhook_to(closed.url()))).body == b"all"
        assert (await sender.send(webhook_to(closed.url()))).body == b"all"
    async with RawReceiver(saying_then_silent(b"")) as silent, RawReceiver(saying(b"HTTP/1.1")) as broken:
        assert (await sender.send(webhook_to(silent.url(), timeout_secs=0.1))).error_code == "read_timeout"
        assert (await sender.send(webhook_to(broken.url()))).error_code == "connection_error"
    await sender.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_every_event_loop_will_do(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    run(_serve_close_and_silence())
