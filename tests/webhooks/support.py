"""Requests to send, and a receiver that answers byte by byte as a script says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Protocol, Self

from perdure.webhooks.guard import Guard
from perdure.webhooks.request import WebhookRequest
from perdure.webhooks.secrets import Secrets
from perdure.webhooks.sender import HttpSender
from perdure.webhooks.signing import Signer

TASK_ID = "0192f0c1-2d3e-7a4b-8c5d-6e7f8a9b0c1d"
HANDLE = f"http://127.0.0.1:8080/task/{TASK_ID}?attempt=2"

#: Writes an answer; the request has been read already. The connection is closed when it returns.
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class MakeSender(Protocol):
    async def __call__(
        self,
        concurrency: int = 8,
        connect_timeout_secs: float = 5,
        response_limit_bytes: int = 64 * 1024,
        guard: Guard | None = None,
        secrets: Secrets | None = None,
        signer: Signer | None = None,
        per_destination: int | None = None,
        patience_secs: float | None = None,
    ) -> HttpSender: ...


def webhook_to(
    url: str,
    verb: str = "POST",
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_secs: float = 10,
    handle: str = HANDLE,
) -> WebhookRequest:
    return WebhookRequest(
        url=url,
        verb=verb,
        body=body,
        headers=headers or {},
        timeout_secs=timeout_secs,
        idempotency_key=f"{TASK_ID}:start:2",
        task_id=TASK_ID,
        trigger="start",
        attempt=2,
        handle=handle,
    )


class RawReceiver:
    """Listens on a free loopback port while entered, and keeps the head of each request as it came."""

    def __init__(self, script: Script) -> None:
        self.heads: list[str] = []
        self._script = script
        self._conversations: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._converse, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._server.close()
        for conversation in self._conversations:
            conversation.cancel()
        await asyncio.gather(*self._conversations)
        await self._server.wait_closed()

    def url(self, rest: str = "/hook", scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.port}{rest}"

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = asyncio.current_task()
        assert conversation is not None
        self._conversations.add(conversation)
        try:
            # A sender that hangs up is what some of the scripts are about; cancelling ends those without end.
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                await self._script(reader, writer)
                writer.close()
                await writer.wait_closed()
        finally:
            self._conversations.discard(conversation)
            writer.transport.abort()


class StartRaw(Protocol):
    async def __call__(self, script: Script) -> RawReceiver: ...


def saying(text: bytes) -> Script:
    """Answers with these bytes and hangs up."""

    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()

    return say


def saying_forever(start: bytes, again: bytes) -> Script:
    """Answers with the start, then repeats the rest as fast as it is taken."""

    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(again)
            await writer.drain()

    return say


def saying_then_silent(text: bytes) -> Script:
    """Answers with these bytes and keeps the connection open."""

    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await asyncio.Event().wait()

    return say
