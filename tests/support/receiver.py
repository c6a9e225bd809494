"""A real HTTP server that records what it is sent and answers as it was told.

    async with Receiver() as receiver:
        receiver.answer("/hook", status=503, times=2)
        ...
        first, second, third = await receiver.wait_for(3, path="/hook")

What nobody scripted is answered with 200 and `{}`.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import web
from multidict import CIMultiDictProxy

LARGEST_BODY = 64 * 1024 * 1024
# To aiohttp, zero would mean to wait for ever.
SECONDS_TO_SHUT_DOWN = 0.01
EMPTY_OBJECT: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request as it arrived. `number` counts all requests of the receiver from 1, in order of arrival."""

    number: int
    method: str
    path: str
    query: dict[str, str]
    headers: CIMultiDictProxy[str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Disconnect(Exception):
    """Raised by an answer to break the connection instead."""


Respond = Callable[[ReceivedRequest], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class ScriptedAnswer:
    """An answer, given to this many more requests; None means to all that come."""

    respond: Respond
    times: int | None


class Receiver:
    """Listens on a free loopback port in the running event loop while entered."""

    def __init__(self) -> None:
        self.requests: list[ReceivedRequest] = []
        self._answers: defaultdict[str, deque[ScriptedAnswer]] = defaultdict(deque)
        self._errors: list[Exception] = []
        self._arrived = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self._port = 0

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=LARGEST_BODY)
        application.router.add_route("*", "/{path:.*}", self._receive)
        # A sender that gave up, and the end of the test, end answers that are still being held back.
        self._runner = web.AppRunner(
            application, handler_cancellation=True, shutdown_timeout=SECONDS_TO_SHUT_DOWN, access_log=None
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._errors:
            raise ExceptionGroup("Answers of the receiver failed", self._errors)

    def url(self, path: str = "/") -> str:
        """The address of a path on this receiver."""
        return f"http://127.0.0.1:{self._port}{path}"

    def answer(
        self,
        path: str,
        respond: Respond | None = None,
        *,
        status: int = 200,
        json: object = EMPTY_OBJECT,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        delay: float | None = None,
        disconnect: bool = False,
        times: int | None = 1,
    ) -> None:
        """Queue an answer for the path, to be given `times` times (None: from then on).

        The body is `json` (`{}` unless told otherwise) or the bytes of `body`; `delay` holds the answer back
        for that many seconds; `disconnect` breaks the connection instead of answering. `respond` is an async
        function of the request that makes the response itself.
        """
        if respond is None:
            respond = _fixed_answer(status, json, body, dict(headers or {}), delay, disconnect)
        self._answers[path].append(ScriptedAnswer(respond, times))

    def requests_to(self, path: str | None = None) -> list[ReceivedRequest]:
        """The requests so far, to one path or to all."""
        return [request for request in self.requests if path is None or request.path == path]

    async def wait_for(self, count: int, path: str | None = None, timeout: float = 10) -> list[ReceivedRequest]:
        """Wait until at least `count` requests have arrived, and return all that have."""
        try:
            async with asyncio.timeout(timeout), self._arrived:
                await self._arrived.wait_for(lambda: len(self.requests_to(path)) >= count)
        except TimeoutError:
            seen = [f"{request.method} {request.path}" for request in self.requests]
            raise AssertionError(
                f"Expected {count} requests to {path or 'the receiver'} within {timeout} s, "
                f"but {len(self.requests_to(path))} arrived; all requests: {seen}"
            ) from None
        return self.requests_to(path)

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        received = ReceivedRequest(
            number=len(self.requests) + 1,
            method=request.method,
            path=request.path,
            query=dict(request.query),
            headers=request.headers,
            body=body,
        )
        respond = self._take_answer(request.path)
        self.requests.append(received)
        async with self._arrived:
            self._arrived.notify_all()
        try:
            return await respond(received)
        except Disconnect:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        except Exception as error:
            # Kept for the end of the test: to the sender it is a plain 500.
            self._errors.append(error)
            raise

    def _take_answer(self, path: str) -> Respond:
        queue = self._answers[path]
        if not queue:
            return _fixed_answer(200, EMPTY_OBJECT, None, {}, None, False)
        answer = queue[0]
        if answer.times is not None:
            answer.times -= 1
            if answer.times == 0:
                queue.popleft()
        return answer.respond


def _fixed_answer(
    status: int,
    content: object,
    body: bytes | None,
    headers: dict[str, str],
    delay: float | None,
    disconnect: bool,
) -> Respond:
    async def respond(_: ReceivedRequest) -> web.StreamResponse:
        if delay is not None:
            await asyncio.sleep(delay)
        if disconnect:
            raise Disconnect
        if body is not None:
            return web.Response(status=status, body=body, headers=headers)
        return web.json_response(content, status=status, headers=headers)

    return respond
