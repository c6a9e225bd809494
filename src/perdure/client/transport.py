"""How requests get to a server and answers back: over HTTP, awaited or not."""

from __future__ import annotations

import asyncio
import http.client
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from perdure.client.errors import Unreachable
from perdure.clock import monotonic

#: Servers close connections that nobody uses; one that rested longer than this is not trusted any more.
LONGEST_REST_SECS = 2.0


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    """Path and query, as they stand in the request line."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes


class Transport(Protocol):
    """Carries requests. Raises `Unreachable` if no answer comes."""

    async def send(self, request: Request) -> Response: ...

    async def pause(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


class HttpTransport:
    """For async code: one pooled session, opened when it is first needed."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> Response:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout, trust_env=False)
        url = URL(self._url + request.target, encoded=True)
        try:
            async with self._session.request(
                request.method, url, headers=dict(request.headers), data=request.body, allow_redirects=False
            ) as answer:
                headers = {name.lower(): value for name, value in answer.headers.items()}
                return Response(answer.status, headers, await answer.read())
        except aiohttp.ClientConnectorError as error:
            raise Unreachable(f"{self._url} does not answer: {error.strerror or error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(f"{self._url} gave no answer: {reason}", sent=True) from error

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


@dataclass(slots=True)
class _Connection:
    http: http.client.HTTPConnection
    used_at: float


class BlockingTransport:
    """For plain code. Its coroutines never wait for anything but the socket, so one step runs each to its end.

    Each thread has a connection of its own.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url.rstrip("/")
        self._timeout = timeout
        self._local = threading.local()
        self._lock = threading.Lock()
        self._opened: set[http.client.HTTPConnection] = set()

    async def send(self, request: Request) -> Response:
        connection = self._connect()
        path = urlsplit(self._url).path + request.target
        try:
            connection.http.request(request.method, path, request.body, dict(request.headers))
            answer = connection.http.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._forget()
            reason = str(error) or type(error).__name__
            raise Unreachable(f"{self._url} gave no answer: {reason}", sent=True) from error
        connection.used_at = monotonic()
        if answer.will_close:
            self._forget()
        return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, body)

    def _connect(self) -> _Connection:
        kept: _Connection | None = getattr(self._local, "connection", None)
        if kept is not None and monotonic() - kept.used_at < LONGEST_REST_SECS:
            return kept
        self._forget()
        parts = urlsplit(self._url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        opened = kind(parts.hostname or "", parts.port, timeout=self._timeout)
        try:
            opened.connect()
        except OSError as error:
            raise Unreachable(f"{self._url} does not answer: {error.strerror or error}") from error
        with self._lock:
            self._opened.add(opened)
        self._local.connection = _Connection(opened, monotonic())
        connection: _Connection = self._local.connection
        return connection

    def _forget(self) -> None:
        kept: _Connection | None = getattr(self._local, "connection", None)
        if kept is not None:
            kept.http.close()
            with self._lock:
                self._opened.discard(kept.http)
            self._local.connection = None

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - nobody else runs here

    async def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, set()
        for connection in opened:
            connection.close()
        self._local = threading.local()
