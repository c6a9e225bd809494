"""Senders to test, and receivers that speak HTTP badly on purpose."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from perdure.webhooks.egress import Egress
from perdure.webhooks.guard import Guard, OpenGuard
from perdure.webhooks.secrets import Secrets
from perdure.webhooks.sender import HttpSender
from perdure.webhooks.signing import Signer
from tests.webhooks.support import MakeSender, RawReceiver, Script, StartRaw


@pytest.fixture
async def make_sender() -> AsyncIterator[MakeSender]:
    async with AsyncExitStack() as opened:

        async def make(
            concurrency: int = 8,
            connect_timeout_secs: float = 5,
            response_limit_bytes: int = 64 * 1024,
            guard: Guard | None = None,
            secrets: Secrets | None = None,
            signer: Signer | None = None,
            per_destination: int | None = None,
            patience_secs: float | None = None,
        ) -> HttpSender:
            sender = HttpSender(
                concurrency=concurrency,
                connect_timeout_secs=connect_timeout_secs,
                response_limit_bytes=response_limit_bytes,
                egress=Egress(guard or OpenGuard(), secrets or Secrets()),
                signer=signer,
                per_destination=per_destination,
                patience_secs=patience_secs,
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
