"""A transport to our own API in this process: the database is worked on directly, without a server or a socket.

Only the parts that commands need are running. Tasks are not claimed here; servers and workers do that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

from perdure.api.app import build_app
from perdure.assemble import make_instance
from perdure.client import Request, Response
from perdure.config import Settings
from perdure.telemetry.logs import configure_logging
from perdure.webhooks.request import WebhookAnswer, WebhookRequest


class SendsNothing:
    """Stands for the sender where no task is started and nothing delivered: that is up to the servers."""

    async def send(self, request: WebhookRequest) -> WebhookAnswer:
        raise RuntimeError(f"commands send no webhooks, but {request.idempotency_key} was to be sent")

    async def close(self) -> None:
        """Nothing is open."""


@asynccontextmanager
async def open_locally(settings: Settings) -> AsyncIterator[LocalTransport]:
    """The database of `settings`, opened; whatever was asked for is on disk when this ends."""
    configure_logging("error", "human")
    # The configured id belongs to the server.
    settings = replace(settings, server=replace(settings.server, instance_id=None))
    instance = make_instance(settings, settings.callback_url(), SendsNothing())
    try:
        await instance.store.open()
        try:
            await instance.engine.start(work=False)
            yield LocalTransport(build_app(instance.engine.commands, instance.store, instance.metrics, settings))
        finally:
            await instance.engine.stop()
    finally:
        await instance.store.close()


@dataclass(frozen=True, slots=True)
class LocalTransport:
    """Hands requests to an application in this process."""

    app: ASGIApp

    async def send(self, request: Request) -> Response:
        sent = False
        started: list[Message] = []
        body: list[bytes] = []

        async def receive() -> Message:
            nonlocal sent
            if sent:
                return {"type": "http.disconnect"}
            sent = True
            return {"type": "http.request", "body": request.body or b"", "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                started.append(message)
            else:
                body.append(message.get("body", b""))

        await self.app(_scope(request), receive, send)
        (start,) = started
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
        return Response(start["status"], headers, b"".join(body))

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Nothing is held open here; `open_locally` closes the database."""


def _scope(request: Request) -> Scope:
    path, _, query = request.target.partition("?")
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()]
    length = (b"content-length", str(len(request.body or b"")).encode("ascii"))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "root_path": "",
        "query_string": query.encode("ascii"),
        "headers": [*headers, length],
        "client": None,
        "server": None,
    }
