"""Receivers that mean harm, called by the engine: each call ends in time, costs little, and tells what happened."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import struct
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure.assemble import make_instance
from perdure.clock import monotonic
from perdure.config import Server, Settings, Webhooks
from perdure.testing import VirtualClock
from tests.engine.definitions import task, webhook
from tests.engine.driven import HOST_URL, Driven
from tests.webhooks.support import Script, StartRaw, saying, saying_forever, saying_then_silent

#: A key and a certificate for it that nobody vouches for; valid for a hundred years.
CERTIFICATE = Path(__file__).with_name("self_signed.pem")
TIMEOUT_SECS = 0.5
#: Far beyond the timeout, for machines that are busy; far below what an endless answer would take.
LONGEST_SECS = 20.0
#: Beside what both sides of a connection buffer.
MEMORY_LIMIT = 8 * 1024 * 1024
BOMB = gzip.compress(bytes(100_000_000))


def drip(start: bytes) -> Script:
    """Answers with the start, then with a byte each second."""

    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(b".")
            await asyncio.sleep(1)

    return say


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The request has been read; what comes back is a reset."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@dataclass(frozen=True, slots=True)
class Hostile:
    """A way to answer, and what is to be read of it afterwards."""

    name: str
    script: Script
    says: str
    code: str | None = None
    status: int | None = None


HOSTILE = [
    Hostile("a head of a byte a second", drip(b"HTTP/1.1 200 OK\r\nX-"), "no complete answer from", "read_timeout"),
    Hostile(
        "a body of a byte a second",
        drip(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"),
        "HTTP 200 was announced, but no complete answer from",
        "read_timeout",
    ),
    Hostile("silence", saying_then_silent(b""), "no complete answer from", "read_timeout"),
    Hostile(
        "an endless body",
        saying_forever(b"HTTP/1.1 500 No\r\n\r\n", b"x" * 65536),
        "HTTP 500: xxxxxxxx",
        status=500,
    ),
    Hostile(
        "a gzip bomb",
        saying(b"HTTP/1.1 500 No\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(BOMB), BOMB)),
        "HTTP 500: (65536 bytes that are no text)",
        status=500,
    ),
    Hostile(
        "10,000 headers",
        saying(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: 1\r\n" % number for number in range(10_000)) + b"\r\n"),
        "the headers of the answer from",
        "too_large",
    ),
    Hostile(
        "an endless header",
        saying_forever(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x" * 4096),
        "the headers of the answer from",
        "too_large",
    ),
    Hostile(
        "broken chunks",
        saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n"),
        "did not answer in HTTP",
        "bad_response",
    ),
    Hostile(
        "chunks that break off",
        saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
        "was lost in the middle of the answer",
        "connection_error",
    ),
    Hostile("a reset after the request", reset, "connection reset by", "connection_error"),
    Hostile("a hang-up after the request", saying(b""), "closed the connection", "connection_error"),
]


@pytest.fixture
async def driven(tmp_path: Path) -> AsyncIterator[Driven]:
    settings = Settings(
        server=Server(database_url=f"sqlite:///{tmp_path}/test.db"), webhooks=Webhooks(timeout_secs=TIMEOUT_SECS)
    )
    clock = VirtualClock()
    instance = make_instance(settings, HOST_URL, clock=clock)
    await instance.store.open()
    yield Driven(instance, clock)
    await instance.engine.stop()
    await instance.store.close()


async def call(driven: Driven, url: str) -> str:
    """A task that calls the receiver when it starts, and again when it has failed."""
    id = await driven.submit_one(task(on_start=webhook(url), on_failure=[webhook(url)]))
    began = monotonic()
    await driven.start()
    await driven.deliver()
    assert monotonic() - began < LONGEST_SECS
    return id


async def check(driven: Driven, id: str, says: str, code: str | None, status: int | None) -> None:
    """That the attempt tells it, and the end webhook's row as well."""
    assert await driven.status(id) == "Failure"
    (attempt,) = await driven.attempts(id)
    assert (attempt["trigger"], attempt["code"], attempt["http_status"]) == ("webhook_failure", code, status)
    assert says in attempt["message"]
    rows = await driven.deliveries(id)
    for key in ("start:0", "failure:0"):
        assert (rows[key]["status"], rows[key]["last_status"]) == ("failure", status)
        assert says in rows[key]["last_error"]
    assert rows["failure:0"]["next_send_at"] is not None


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.name)
async def test_it_ends_in_time_and_the_attempt_tells_why(hostile: Hostile, driven: Driven, start_raw: StartRaw) -> None:
    raw = await start_raw(hostile.script)

    id = await call(driven, raw.url())

    await check(driven, id, hostile.says, hostile.code, hostile.status)
    assert len(raw.heads) == 2, "one request for each key"


async def test_a_certificate_that_nobody_vouches_for_is_told(driven: Driven) -> None:
    heads: list[bytes] = []

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.read())
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    async with await asyncio.start_server(converse, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        id = await call(driven, f"https://127.0.0.1:{port}/")

    await check(driven, id, f"TLS with 127.0.0.1:{port} failed: ", "tls_error", None)
    assert "self-signed certificate" in (await driven.attempts(id))[0]["message"].replace("self signed", "self-signed")
    assert heads == [], "nothing was sent to somebody unknown"


async def test_tls_with_somebody_who_speaks_none_is_told(driven: Driven) -> None:
    async def answer_in_plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer_in_plain, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        id = await call(driven, f"https://127.0.0.1:{port}/")

    await check(driven, id, f"TLS with 127.0.0.1:{port} failed: ", "tls_error", None)


async def test_memory_stays_flat(driven: Driven, start_raw: StartRaw) -> None:
    receivers = [await start_raw(hostile.script) for hostile in HOSTILE]
    first = await call(driven, receivers[0].url())
    tracemalloc.start()
    try:
        ids = [await driven.submit_one(task(on_start=webhook(one.url()))) for one in receivers for _ in range(3)]
        await driven.start()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert {await driven.status(id) for id in [first, *ids]} == {"Failure"}
    assert peak < MEMORY_LIMIT
