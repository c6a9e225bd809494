"""What is made of the answers of receivers, good and bad."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

from perdure.webhooks.sender import HttpSender
from tests.support.receiver import Receiver
from tests.webhooks.support import (
    MakeSender,
    StartRaw,
    saying,
    saying_forever,
    saying_then_silent,
    webhook_to,
)


@pytest.mark.parametrize(
    ("status", "accepted"),
    [(200, True), (202, True), (204, True), (299, True), (300, False), (404, False), (503, False)],
)
async def test_2xx_is_success(status: int, accepted: bool, sender: HttpSender, receiver: Receiver) -> None:
    receiver.answer("/hook", status=status, body=b"" if status == 204 else b"why")
    answer = await sender.send(webhook_to(receiver.url("/hook")))

    assert answer.status == status
    assert answer.accepted is accepted
    assert answer.describe() == f"HTTP {status}"
    assert (answer.error_code, answer.error) == (None, None)
    assert 0 < answer.duration_secs < 10


async def test_only_headers_that_somebody_reads_are_kept(sender: HttpSender, receiver: Receiver) -> None:
    given = {"Retry-After": "120", "RateLimit-Reset": "9", "X-RateLimit-Reset": "1" * 1000, "X-Other": "x"}
    receiver.answer("/hook", status=429, headers=given)
    answer = await sender.send(webhook_to(receiver.url("/hook")))

    assert answer.headers == {
        "retry-after": "120",
        "ratelimit-reset": "9",
        "x-ratelimit-reset": "1" * 256,
        "content-type": "application/json; charset=utf-8",
    }


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(status: int, sender: HttpSender, receiver: Receiver) -> None:
    receiver.answer("/hook", status=status, headers={"Location": receiver.url("/elsewhere")})
    answer = await sender.send(webhook_to(receiver.url("/hook")))

    assert answer.status == status
    assert not answer.accepted
    assert [request.path for request in receiver.requests] == ["/hook"]


@pytest.mark.parametrize(("size", "truncated"), [(0, False), (99, False), (100, False), (101, True), (100_000, True)])
async def test_the_body_is_kept_up_to_the_limit(
    size: int, truncated: bool, make_sender: MakeSender, receiver: Receiver
) -> None:
    sender = await make_sender(response_limit_bytes=100)
    receiver.answer("/hook", body=b"x" * size)
    answer = await sender.send(webhook_to(receiver.url("/hook")))

    assert answer.accepted
    assert answer.body == b"x" * min(size, 100)
    assert answer.truncated is truncated


@pytest.mark.parametrize(
    "start",
    [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n"],
)
async def test_an_endless_body_is_read_up_to_the_limit_and_no_further(
    start: bytes, sender: HttpSender, start_raw: StartRaw
) -> None:
    raw = await start_raw(saying_forever(start, b"x" * 4096))
    answer = await sender.send(webhook_to(raw.url()))

    assert answer.status == 200
    assert answer.body == b"x" * 65536
    assert answer.truncated


@pytest.mark.parametrize(
    ("encoding", "encoded"),
    [
        ("gzip", gzip.compress(b'{"ok": true}')),
        ("GZIP", gzip.compress(b'{"ok": true}')),
        ("deflate", zlib.compress(b'{"ok": true}')),
        ("deflate", zlib.compress(b'{"ok": true}', wbits=-15)),
        ("identity", b'{"ok": true}'),
        ("gzip", b'{"ok": true}'),
    ],
    ids=["gzip", "upper case", "deflate", "deflate without header", "identity", "gzip only by name"],
)
async def test_bodies_are_decompressed(encoding: str, encoded: bytes, sender: HttpSender, receiver: Receiver) -> None:
    receiver.answer("/hook", body=encoded, headers={"Content-Encoding": encoding})
    answer = await sender.send(webhook_to(receiver.url("/hook")))

    assert answer.status == 200
    assert answer.body == b'{"ok": true}'
    assert not answer.truncated


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_decompression_bomb_is_cut_at_the_limit(encoding: str, sender: HttpSender, receiver: Receiver) -> None:
    bomb = zlib.compress(bytes(50_000_000), wbits=31 if encoding == "gzip" else 15)
    receiver.answer("/hook", body=bomb, headers={"Content-Encoding": encoding})
    answer = await sender.send(webhook_to(receiver.url("/hook")))

    assert answer.status == 200
    assert answer.body == bytes(65536)
    assert answer.truncated


async def test_a_compressed_stream_that_yields_nothing_is_cut_too(sender: HttpSender, start_raw: StartRaw) -> None:
    compressor = zlib.compressobj(wbits=31)
    start = compressor.compress(b"") + compressor.flush(zlib.Z_SYNC_FLUSH)
    empty_block = b"\x00\x00\x00\xff\xff"
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
    raw = await start_raw(saying_forever(head + start, empty_block * 1000))
    answer = await sender.send(webhook_to(raw.url()))

    assert answer.status == 200
    assert answer.body == b""
    assert answer.truncated


async def test_a_compressed_body_that_breaks_off_is_marked_as_truncated(sender: HttpSender, receiver: Receiver) -> None:
    receiver.answer("/hook", body=gzip.compress(b"x" * 1000)[:-8], headers={"Content-Encoding": "gzip"})
    answer = await sender.send(webhook_to(receiver.url("/hook")))

    assert answer.status == 200
    assert answer.body == b"x" * 1000
    assert answer.truncated


async def test_a_receiver_that_never_answers_is_given_up(sender: HttpSender, start_raw: StartRaw) -> None:
    raw = await start_raw(saying_then_silent(b""))
    answer = await sender.send(webhook_to(raw.url(), timeout_secs=0.2))

    assert (answer.status, answer.error_code) == (None, "read_timeout")
    assert answer.describe() == f"no complete answer from 127.0.0.1:{raw.port} within 0.2 s"
    assert 0.2 <= answer.duration_secs < 2


async def test_interim_answers_do_not_prolong_the_time(sender: HttpSender, start_raw: StartRaw) -> None:
    raw = await start_raw(saying_forever(b"", b"HTTP/1.1 102 Processing\r\n\r\n"))
    answer = await sender.send(webhook_to(raw.url(), timeout_secs=0.2))

    assert answer.error_code == "read_timeout"


@pytest.mark.parametrize(("status", "kept"), [(200, None), (503, 503), (400, 400)])
async def test_a_body_that_drips_is_cut_by_the_time_of_the_whole_call(
    status: int, kept: int | None, sender: HttpSender, start_raw: StartRaw
) -> None:
    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 %d Status\r\nRetry-After: 7\r\nContent-Length: 1000\r\n\r\n" % status)
        while not writer.is_closing():
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.02)

    raw = await start_raw(drip)
    answer = await sender.send(webhook_to(raw.url(), timeout_secs=0.2))

    assert answer.status == kept
    assert answer.error_code == ("read_timeout" if kept is None else None)
    assert not answer.accepted
    assert answer.truncated
    assert set(answer.body) == set(b".")
    assert answer.headers["retry-after"] == "7"
    if kept is None:
        assert answer.describe().startswith("HTTP 200 was announced, but no complete answer from 127.0.0.1:")


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ],
    ids=["length", "chunked"],
)
async def test_an_answer_that_breaks_off_is_no_success(said: bytes, sender: HttpSender, start_raw: StartRaw) -> None:
    raw = await start_raw(saying(said))
    answer = await sender.send(webhook_to(raw.url()))

    assert (answer.status, answer.error_code) == (None, "connection_error")
    assert answer.body == b"abc"
    assert answer.describe() == (
        f"HTTP 200 was announced, but connection to 127.0.0.1:{raw.port} was lost in the middle of the answer"
    )


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"\x00\x01\x02\x03\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: minus\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 2\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nRetry-After: a\x00b\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"<html>" * 100 + b"\r\n\r\n",
    ],
    ids=[
        "ssh",
        "binary",
        "status",
        "header",
        "length",
        "both lengths",
        "both, turned",
        "two lengths",
        "null",
        "chunk",
        "page",
    ],
)
async def test_what_is_not_http_is_a_bad_response(said: bytes, sender: HttpSender, start_raw: StartRaw) -> None:
    raw = await start_raw(saying(said))
    answer = await sender.send(webhook_to(raw.url()))

    assert (answer.status, answer.error_code) == (None, "bad_response")
    assert f"127.0.0.1:{raw.port}" in answer.describe()
    assert answer.describe().isprintable()
    assert len(answer.describe()) < 300


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: 1\r\n" % number for number in range(10_000)) + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 " + b"O" * 100_000 + b"\r\n\r\n",
    ],
    ids=["10,000 headers", "long header", "long reason"],
)
async def test_a_head_without_measure_is_refused(head: bytes, sender: HttpSender, start_raw: StartRaw) -> None:
    raw = await start_raw(saying(head))
    answer = await sender.send(webhook_to(raw.url()))

    assert (answer.status, answer.error_code) == (None, "too_large")
    assert answer.describe() == f"the headers of the answer from 127.0.0.1:{raw.port} are too large"


async def test_an_endless_head_is_refused(sender: HttpSender, start_raw: StartRaw) -> None:
    raw = await start_raw(saying_forever(b"HTTP/1.1 200 OK\r\n", b"X-Again: and again\r\n"))
    answer = await sender.send(webhook_to(raw.url()))

    assert answer.error_code == "too_large"


@pytest.mark.parametrize(
    ("start", "again"),
    [
        (b"0\r\n", b"X-Again: and again\r\n"),
        (b"0\r\nX-Long: ", b"x" * 1000),
        (b"0\r\n", b"X" * 1000),
        (b"3;long=", b"x" * 1000),
    ],
    ids=["trailers", "trailer", "name of a trailer", "extension of a chunk"],
)
async def test_nothing_beside_the_body_is_endless_either(
    start: bytes, again: bytes, sender: HttpSender, start_raw: StartRaw
) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
    raw = await start_raw(saying_forever(head + start, again))
    answer = await sender.send(webhook_to(raw.url()))

    assert answer.error_code == "too_large"


@pytest.mark.parametrize(("name", "count"), [(b"X", 8191), (b"X", 8192), (b"Y", 127), (b"Y", 129)])
async def test_a_head_is_read_up_to_its_limits(
    name: bytes, count: int, sender: HttpSender, start_raw: StartRaw
) -> None:
    head = b"X: " + b"x" * count + b"\r\n" if name == b"X" else b"Y: y\r\n" * count
    raw = await start_raw(saying(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n"))
    answer = await sender.send(webhook_to(raw.url()))

    assert answer.error_code == ("too_large" if count in (8192, 129) else None)


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n"])
async def test_a_body_may_end_with_its_connection(head: bytes, sender: HttpSender, start_raw: StartRaw) -> None:
    raw = await start_raw(saying(head + b"all of it"))
    answer = await sender.send(webhook_to(raw.url()))

    assert (answer.status, answer.body, answer.truncated) == (200, b"all of it", False)


async def test_chunks_that_break_off_are_no_body_that_ends(sender: HttpSender, start_raw: StartRaw) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    raw = await start_raw(saying(head + b"3\r\nabc\r\n"))
    assert (await sender.send(webhook_to(raw.url()))).error_code == "connection_error"


async def test_interim_answers_are_skipped_with_their_headers(sender: HttpSender, start_raw: StartRaw) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nRetry-After: 9\r\nContent-Length: 5\r\n\r\n"
    raw = await start_raw(saying(interim + b"HTTP/1.1 202 Accepted\r\nContent-Type: text/plain\r\n\r\nall"))
    answer = await sender.send(webhook_to(raw.url()))

    assert (answer.status, answer.body) == (202, b"all")
    assert answer.headers == {"content-type": "text/plain"}


async def test_an_answer_may_come_byte_by_byte(sender: HttpSender, start_raw: StartRaw) -> None:
    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        text = b"HTTP/1.1 200 OK\r\nRetry-After: 12\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        for number in range(len(text)):
            writer.write(text[number : number + 1])
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    raw = await start_raw(drip)
    answer = await sender.send(webhook_to(raw.url()))

    assert (answer.status, answer.body, answer.headers) == (200, b"abc", {"retry-after": "12"})


async def test_who_speaks_first_speaks_no_http(sender: HttpSender) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        answer = await sender.send(webhook_to(f"http://127.0.0.1:{port}/"))

    assert (answer.status, answer.error_code) == (None, "bad_response")
    assert "SSH-2.0-OpenSSH_9.6" in answer.describe()


async def test_switching_protocols_is_no_success(sender: HttpSender, start_raw: StartRaw) -> None:
    said = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    raw = await start_raw(saying_then_silent(said))
    answer = await sender.send(webhook_to(raw.url(), timeout_secs=0.5))

    assert answer.status == 101
    assert not answer.accepted
