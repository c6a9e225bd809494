"""Senders to test, and receivers that speak HTTP badly on purpose."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from perdure.webhooks.guard import Guard, OpenGuard
from perdure.webhooks.sender import HttpSender
from tests.webhooks.support import MakeSender, RawReceiver, Script, StartRaw


@pytest.fixture
async def make_sender() -> AsyncIterator[MakeSender]:
    async with AsyncExitStack() as opened:

        async def make(
            concurrency: int = 8,
            connect_timeout_secs: float = 5,
            response_limit_bytes: int = 64 * 1024,
            guard: Guard | None = None,
        ) -> HttpSender:
            sender = HttpSender(
                concurrency=concurrency,
                connect_timeout_secs=connect_timeout_secs,
                response_limit_bytes=response_limit_bytes,
                guard=guard or OpenGuard(),
            )
            opened.push_async_callback(sender.close)
            return sender

        yield make


@pytest.fixture
async def sender(make_sender: MakeSender) -> HttpSender:
    return await make_sender()


@pytest.fixture
async def start_raw() -> AsyncIterator[StartRaw]:
    """Starts receivers that answer by a script, byte by byte."""
    async with AsyncExitStack() as opened:

        async def start(script: Script) -> RawReceiver:
            return await opened.enter_async_context(RawReceiver(script))

        yield start
