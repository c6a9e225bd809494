"""Connections that cannot be made, break, are shared, or are not allowed."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import threading
from typing import Any

import pytest
from aiohttp import web

from perdure.webhooks import connecting
from perdure.webhooks.failures import ERROR_CODES, Unreachable, explain
from perdure.webhooks.guard import BlockedAddress, OpenGuard, Resolver
from perdure.webhooks.sender import HttpSender
from tests.support.receiver import ReceivedRequest, Receiver
from tests.webhooks.support import TASK_ID, MakeSender, StartRaw, saying, saying_then_silent, webhook_to


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


async def test_a_refused_connection_names_who_refused(sender: HttpSender) -> None:
    port = unused_port()
    answer = await sender.send(webhook_to(f"http://127.0.0.1:{port}/hook?token=hidden"))

    assert (answer.status, answer.error_code) == (None, "connection_error")
    assert answer.describe() == f"connection refused by 127.0.0.1:{port}"


async def test_an_unknown_host_name_is_a_dns_error(sender: HttpSender) -> None:
    answer = await sender.send(webhook_to("http://nonexistent.invalid/hook"))

    assert (answer.status, answer.error_code) == (None, "dns_error")
    assert answer.describe().startswith("host name nonexistent.invalid could not be resolved: ")


async def test_names_that_take_long_hold_up_no_others(
    make_sender: MakeSender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()
    look_up = socket.getaddrinfo

    def slow_for_some(host: str, *more: Any, **named: Any) -> Any:
        if host.endswith(".slow.test"):
            answered.wait(30)
        return look_up("127.0.0.1" if host.endswith(".test") else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", slow_for_some)
    sender = await make_sender(connect_timeout_secs=0.5)
    try:
        waiting = [asyncio.create_task(sender.send(webhook_to(f"http://a{number}.slow.test/"))) for number in range(60)]
        await asyncio.sleep(0)
        quick = await sender.send(webhook_to(receiver.url().replace("127.0.0.1", "quick.test")))
        # Nor work of others that is done in threads.
        assert await asyncio.to_thread(threading.current_thread) is not threading.main_thread()
        assert quick.status == 200
        for answer in await asyncio.gather(*waiting):
            assert answer.error_code == "dns_error"
            assert answer.describe().endswith(".slow.test could not be resolved: no answer in time")
    finally:
        answered.set()


def reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@pytest.mark.parametrize("verb", ["GET", "PUT", "POST"])
async def test_a_reset_connection_is_not_tried_again(verb: str, sender: HttpSender, start_raw: StartRaw) -> None:
    async def answer_with_reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reset(writer)

    raw = await start_raw(answer_with_reset)
    answer = await sender.send(webhook_to(raw.url(), verb))

    assert (answer.status, answer.error_code) == (None, "connection_error")
    assert answer.describe() == f"connection reset by 127.0.0.1:{raw.port}"
    assert len(raw.heads) == 1


async def test_a_reset_in_the_middle_of_the_answer_is_no_success(sender: HttpSender, start_raw: StartRaw) -> None:
    async def reset_in_the_middle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc")
        await writer.drain()
        reset(writer)

    raw = await start_raw(reset_in_the_middle)
    answer = await sender.send(webhook_to(raw.url()))

    assert (answer.status, answer.error_code) == (None, "connection_error")


@pytest.mark.parametrize("verb", ["GET", "PUT", "POST"])
async def test_a_connection_closed_without_an_answer_is_not_tried_again(
    verb: str, sender: HttpSender, start_raw: StartRaw
) -> None:
    raw = await start_raw(saying(b""))
    answer = await sender.send(webhook_to(raw.url(), verb))

    assert answer.error_code == "connection_error"
    assert answer.describe() == f"127.0.0.1:{raw.port} closed the connection without an answer"
    assert len(raw.heads) == 1


async def test_tls_that_fails_is_a_tls_error(sender: HttpSender) -> None:
    async def answer_in_plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    plain = await asyncio.start_server(answer_in_plain, "127.0.0.1", 0)
    async with plain:
        port = plain.sockets[0].getsockname()[1]
        answer = await sender.send(webhook_to(f"https://127.0.0.1:{port}/hook"))

    assert (answer.status, answer.error_code) == (None, "tls_error")
    assert answer.describe().startswith(f"TLS with 127.0.0.1:{port} failed: ")


def test_an_unreachable_network_is_a_connection_error() -> None:
    problem = Unreachable(OSError(errno.ENETUNREACH, "Network is unreachable"))
    failure = explain(problem, "example.com:443")

    assert failure is not None
    assert failure.code in ERROR_CODES
    assert failure.text == "could not connect to example.com:443: Network is unreachable"


class StuckResolver:
    """Never finds an address, as when name servers do not answer."""

    async def resolve(self, host: str, port: int, /) -> list[str]:
        await asyncio.Event().wait()
        raise AssertionError(f"{host}:{port}")

    async def close(self) -> None:
        pass


class LoopbackResolver:
    """Finds every name on loopback, except those that are blocked."""

    def __init__(self) -> None:
        self.closed = False

    async def resolve(self, host: str, port: int, /) -> list[str]:
        assert port > 0
        if host.startswith("blocked"):
            raise BlockedAddress(f"{host} leads to 10.0.0.1, a private address")
        return ["127.0.0.1"]

    async def close(self) -> None:
        self.closed = True


class ResolvingGuard(OpenGuard):
    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    def check_host(self, host: str, port: int, /) -> list[str]:
        return [f"{host}:{port} is a metadata address"] if host == "169.254.169.254" else []

    def resolver(self) -> Resolver | None:
        return self._resolver


class BrokenResolver(StuckResolver):
    async def resolve(self, host: str, port: int, /) -> list[str]:
        raise KeyError(f"{host}:{port}")


async def test_an_error_of_our_own_is_reported_and_logged(
    make_sender: MakeSender, caplog: pytest.LogCaptureFixture
) -> None:
    sender = await make_sender(guard=ResolvingGuard(BrokenResolver()))
    answer = await sender.send(webhook_to("http://broken.test/hook"))

    assert (answer.status, answer.error_code) == (None, "unexpected_error")
    assert answer.describe() == "calling broken.test:80 failed: KeyError"
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.__dict__["fields"] == {"task": TASK_ID, "key": f"{TASK_ID}:start:2", "trigger": "start"}


@pytest.mark.parametrize(
    ("connect_timeout", "whole_timeout"), [(0.1, 10), (10, 0.1)], ids=["connect timeout", "whole timeout"]
)
@pytest.mark.parametrize("stuck", ["name", "connection"])
async def test_a_connection_that_is_not_made_in_time_is_given_up(
    stuck: str, connect_timeout: float, whole_timeout: float, make_sender: MakeSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object, **__: object) -> socket.socket:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    if stuck == "connection":
        monkeypatch.setattr(connecting, "start_connection", never)
    guard = ResolvingGuard(StuckResolver()) if stuck == "name" else OpenGuard()
    sender = await make_sender(connect_timeout_secs=connect_timeout, guard=guard)
    host = "slow.test" if stuck == "name" else "127.0.0.1"
    answer = await sender.send(webhook_to(f"http://{host}:81/", timeout_secs=whole_timeout))

    if stuck == "name":
        assert answer.error_code == "dns_error"
        assert answer.describe() == "host name slow.test could not be resolved: no answer in time"
    else:
        assert answer.error_code == "connect_timeout"
        assert answer.describe() == "no connection to 127.0.0.1:81 within 0.1 s"
    assert answer.status is None
    assert answer.duration_secs < 2


async def test_the_guards_resolver_decides_where_a_name_leads(make_sender: MakeSender, receiver: Receiver) -> None:
    resolver = LoopbackResolver()
    sender = await make_sender(guard=ResolvingGuard(resolver))
    answer = await sender.send(webhook_to(receiver.url("/hook").replace("127.0.0.1", "receiver.test")))
    await sender.close()

    assert answer.status == 200
    assert receiver.requests[0].headers["Host"].startswith("receiver.test:")
    assert resolver.closed


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://blocked.test/", "blocked.test leads to 10.0.0.1, a private address"),
        ("http://169.254.169.254/", "169.254.169.254:80 is a metadata address"),
    ],
)
async def test_what_the_guard_refuses_is_not_called(url: str, reason: str, make_sender: MakeSender) -> None:
    sender = await make_sender(guard=ResolvingGuard(LoopbackResolver()))
    answer = await sender.send(webhook_to(url))

    assert (answer.status, answer.error_code) == (None, "blocked_address")
    assert answer.describe() == reason


@pytest.mark.parametrize(
    ("verb", "url", "headers"),
    [
        ("GET", "ftp://127.0.0.1/", {}),
        ("GET", "http://127.0.0.1/", {"X-Evil": "1\r\nHost: other"}),
        ("GE T", "http://127.0.0.1/", {}),
    ],
)
async def test_a_request_that_cannot_be_written_is_reported_not_raised(
    verb: str, url: str, headers: dict[str, str], sender: HttpSender
) -> None:
    answer = await sender.send(webhook_to(url, verb, headers=headers))

    assert (answer.status, answer.error_code) == (None, "invalid_request")


async def test_connections_are_shared_and_kept(make_sender: MakeSender, start_raw: StartRaw) -> None:
    async def serve_twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            await reader.readuntil(b"\r\n\r\n")

    raw = await start_raw(serve_twice)
    sender = await make_sender()
    assert (await sender.send(webhook_to(raw.url()))).accepted
    assert (await sender.send(webhook_to(raw.url()))).accepted

    assert len(raw.heads) == 1


async def test_no_more_calls_are_under_way_than_allowed(make_sender: MakeSender, receiver: Receiver) -> None:
    under_way = most = 0
    threes = asyncio.Barrier(3)

    async def count(_: ReceivedRequest) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await threes.wait()
        under_way -= 1
        return web.Response()

    receiver.answer("/hook", count, times=None)
    sender = await make_sender(concurrency=3)
    answers = await asyncio.gather(*(sender.send(webhook_to(receiver.url("/hook"))) for _ in range(12)))

    assert all(answer.accepted for answer in answers)
    assert most == 3


async def test_waiting_for_a_place_is_not_charged_to_the_receiver(
    make_sender: MakeSender, receiver: Receiver, start_raw: StartRaw
) -> None:
    stuck = await start_raw(saying_then_silent(b""))
    sender = await make_sender(concurrency=1)
    first, second = await asyncio.gather(
        sender.send(webhook_to(stuck.url(), timeout_secs=0.3)),
        sender.send(webhook_to(receiver.url(), timeout_secs=0.2)),
    )

    assert first.error_code == "read_timeout"
    assert second.accepted
    assert second.duration_secs < 0.2


async def test_only_cancellation_is_raised(sender: HttpSender, receiver: Receiver) -> None:
    receiver.answer("/hook", delay=60)
    call = asyncio.create_task(sender.send(webhook_to(receiver.url("/hook"))))
    await receiver.wait_for(1)
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await sender.send(webhook_to(receiver.url("/other")))).accepted


async def test_a_closed_sender_says_so(sender: HttpSender) -> None:
    await sender.close()

    with pytest.raises(RuntimeError, match="closed"):
        await sender.send(webhook_to("http://127.0.0.1/"))


def test_a_request_prints_without_its_secrets() -> None:
    request = webhook_to(
        "http://h/?key=secret",
        body='"secret"',
        headers={"Authorization": "secret"},
        handle="http://x/?t=secret",
    )
    assert "secret" not in repr(request)
