"""TLS: who answers has to be who was called."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perdure.webhooks.address_guard import AddressGuard, Openings
from perdure.webhooks.sender import HttpSender
from tests.webhooks.names import FakeNames
from tests.webhooks.support import MakeSender, webhook_to

#: For receiver.test and 127.0.0.1, by an authority of its own.
CERTIFICATE = Path(__file__).with_name("self_signed.pem")


@dataclass
class Served:
    """What a receiver behind TLS has seen."""

    port: int
    heads: list[bytes] = field(default_factory=list)
    #: One of each connection that got so far as to name who it wants.
    names: list[str | None] = field(default_factory=list)


@pytest.fixture
async def receiver() -> AsyncIterator[Served]:
    served = Served(0)

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                served.heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.transport.abort()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    context.sni_callback = lambda _, name, __: served.names.append(name)
    async with await asyncio.start_server(converse, "127.0.0.1", 0, ssl=context) as server:
        served.port = server.sockets[0].getsockname()[1]
        yield served


@pytest.fixture
async def sender(make_sender: MakeSender, monkeypatch: pytest.MonkeyPatch) -> HttpSender:
    """Trusts the certificate, and finds every name on loopback."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    names = FakeNames({name: [["127.0.0.1"]] for name in ("receiver.test", "receiver.test.", "other.test")})
    return await make_sender(guard=AddressGuard(Openings(loopback=True), names=names))


@pytest.mark.parametrize("host", ["receiver.test", "receiver.test.", "127.0.0.1"])
async def test_who_proves_to_be_who_was_called_gets_the_request(
    host: str, sender: HttpSender, receiver: Served
) -> None:
    for _ in range(2):
        assert (await sender.send(webhook_to(f"https://{host}:{receiver.port}/hook"))).accepted

    assert len(receiver.heads) == 2
    # An address is nothing that TLS names; and the second request found the connection of the first.
    assert receiver.names == [None if host == "127.0.0.1" else "receiver.test"]


async def test_a_certificate_for_somebody_else_is_refused(sender: HttpSender, receiver: Served) -> None:
    answer = await sender.send(webhook_to(f"https://other.test:{receiver.port}/hook"))

    assert (answer.status, answer.error_code) == (None, "tls_error")
    assert answer.describe().startswith(f"TLS with other.test:{receiver.port} failed: ")
    assert "Hostname mismatch" in answer.describe()
    assert receiver.heads == []


async def test_an_untrusted_certificate_is_refused(make_sender: MakeSender, receiver: Served) -> None:
    answer = await (await make_sender()).send(webhook_to(f"https://127.0.0.1:{receiver.port}/hook"))

    assert (answer.status, answer.error_code) == (None, "tls_error")
    assert "self-signed certificate" in answer.describe().replace("self signed", "self-signed")
    assert receiver.heads == []


async def test_a_connection_in_plain_is_not_taken_for_one_with_tls(sender: HttpSender, receiver: Served) -> None:
    assert (await sender.send(webhook_to(f"https://127.0.0.1:{receiver.port}/hook"))).accepted
    answer = await sender.send(webhook_to(f"http://127.0.0.1:{receiver.port}/hook"))

    assert answer.error_code is not None
    assert len(receiver.heads) == 1
