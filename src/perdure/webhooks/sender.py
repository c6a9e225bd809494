"""The one way out: sends webhooks over HTTP, each bounded in time and size."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from perdure.webhooks.body import BoundedBody
from perdure.webhooks.egress import Egress
from perdure.webhooks.envelope import new_traceparent, outgoing_headers
from perdure.webhooks.failures import (
    BLOCKED_ADDRESS,
    CONNECT_TIMEOUT,
    INVALID_REQUEST,
    READ_TIMEOUT,
    UNEXPECTED_ERROR,
    ConnectionLost,
    Failure,
    explain,
)
from perdure.webhooks.guard import BlockedAddress, check_headers, check_url
from perdure.webhooks.places import Places
from perdure.webhooks.request import KEPT_HEADERS, WebhookAnswer, WebhookRequest
from perdure.webhooks.secrets import UnknownSecret
from perdure.webhooks.signing import Signer
from perdure.webhooks.target import destination_of, target_url

log = logging.getLogger(__name__)

#: Below the 5 s after which many servers drop an idle connection: ours is given up before theirs is.
_IDLE_CONNECTION_SECS = 4.0
_HEADER_LINE_LIMIT = 8 * 1024
_HEADER_COUNT_LIMIT = 128
_KEPT_HEADER_LENGTH = 256


@dataclass(slots=True)
class _Progress:
    """How far a call has come, for those who must say how it ended."""

    host: str = ""
    request: aiohttp.ClientRequest | None = None
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: BoundedBody | None = None

    @property
    def connected(self) -> bool:
        """Whether the request could begin to leave: from then on there is somebody to answer it."""
        return self.request is not None and self.request.response is not None


#: The call that the running task makes: for those who see no more of it than a request, or an address.
_under_way: ContextVar[_Progress] = ContextVar("under_way")


class HttpSender:
    """Sends over pooled connections, at most `concurrency` calls at a time and `per_destination` of them to one
    scheme, host and port; further ones wait their turn, as long as `patience_secs` says."""

    def __init__(
        self,
        *,
        concurrency: int,
        connect_timeout_secs: float,
        response_limit_bytes: int,
        egress: Egress,
        signer: Signer | None = None,
        per_destination: int | None = None,
        patience_secs: float | None = None,
    ) -> None:
        self._concurrency = concurrency
        self._connect_timeout_secs = connect_timeout_secs
        self._response_limit_bytes = response_limit_bytes
        self._egress = egress
        self._signer = signer
        # Waiting for a place is not the receiver's fault: the time of a call begins behind this.
        self._places = Places(concurrency, per_destination or concurrency, patience_secs)
        self._session: aiohttp.ClientSession | None = None
        self._resolver: AbstractResolver | None = None
        self._closed = False

    async def send(self, request: WebhookRequest) -> WebhookAnswer:
        try:
            headers = self._egress.secrets.resolve(request.headers)
        except UnknownSecret as problem:
            return _answer(_Progress(), Failure(INVALID_REQUEST, str(problem)), 0.0)
        if refusal := _refuse_form(request.url, headers):
            return _answer(_Progress(), refusal, 0.0)
        url = target_url(request.url, request.handle)
        async with self._places.take(destination_of(request.url)):
            read_clock = asyncio.get_running_loop().time
            began = read_clock()
            progress = _Progress()
            failure = await self._call(request, url, headers, progress)
            answer = _answer(progress, failure, read_clock() - began)
        return answer if headers is request.headers else self._without_secrets(request, answer)

    def _without_secrets(self, request: WebhookRequest, answer: WebhookAnswer) -> WebhookAnswer:
        """Some receivers send back what they were sent; an answer is kept, shown and logged."""
        mask = partial(self._egress.secrets.mask, request.headers)
        return replace(
            answer,
            body=mask(answer.body),
            headers={name: mask(value.encode()).decode() for name, value in answer.headers.items()},
            error=None if answer.error is None else mask(answer.error.encode()).decode(),
        )

    async def close(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()
        if self._resolver is not None:
            await self._resolver.close()

    async def _call(
        self, request: WebhookRequest, url: URL, headers: Mapping[str, str], progress: _Progress
    ) -> Failure | None:
        host = url.raw_host or ""
        if refusals := self._egress.guard.check_host(host, url.port or 0):
            return Failure(BLOCKED_ADDRESS, "; ".join(refusals))
        progress.host = host
        _under_way.set(progress)
        session = self._open_session()
        try:
            async with asyncio.timeout(request.timeout_secs):
                await self._exchange(session, request, url, headers, progress)
        except Exception as problem:
            return self._failure(problem, request, progress, f"{url.host_subcomponent}:{url.port}")
        return None

    def _failure(self, problem: Exception, request: WebhookRequest, progress: _Progress, where: str) -> Failure:
        if isinstance(problem, TimeoutError):
            if progress.connected:
                return Failure(READ_TIMEOUT, f"no complete answer from {where} within {request.timeout_secs:g} s")
            limit = min(self._connect_timeout_secs, request.timeout_secs)
            return Failure(CONNECT_TIMEOUT, f"no connection to {where} within {limit:g} s")
        failure = explain(problem, where)
        if failure is None:
            log.exception("calling a webhook failed unexpectedly", extra={"fields": _log_fields(request)})
            failure = Failure(UNEXPECTED_ERROR, f"calling {where} failed: {type(problem).__name__}")
        return failure

    async def _exchange(
        self,
        session: aiohttp.ClientSession,
        request: WebhookRequest,
        url: URL,
        headers: Mapping[str, str],
        progress: _Progress,
    ) -> None:
        body = None if request.body is None else request.body.encode()
        signature = self._signer.sign(request.idempotency_key, body or b"") if self._signer else {}
        async with session.request(
            request.verb,
            url,
            data=body,
            headers=outgoing_headers(request, headers, new_traceparent(), signature),
            allow_redirects=False,
        ) as response:
            progress.status = response.status
            progress.headers = _kept_headers(response)
            progress.body = BoundedBody(self._response_limit_bytes, response.headers.get("Content-Encoding", ""))
            async for chunk in response.content.iter_any():
                progress.body.feed(chunk)
                if progress.body.full:
                    # The rest would have to be read before the connection could serve again.
                    response.close()
                    break

    def _open_session(self) -> aiohttp.ClientSession:
        """The pool, made at the first call because it belongs to the running event loop."""
        if self._closed:
            raise RuntimeError("This sender is closed; make a new one to send again.")
        if self._session is None:
            self._resolver = self._egress.guard.resolver()
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._concurrency,
                    keepalive_timeout=_IDLE_CONNECTION_SECS,
                    resolver=self._resolver,
                    socket_factory=self._open_socket,
                ),
                timeout=aiohttp.ClientTimeout(connect=self._connect_timeout_secs, ceil_threshold=math.inf),
                trust_env=False,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                # Without a body there is no type of one.
                skip_auto_headers=("Content-Type",),
                max_line_size=_HEADER_LINE_LIMIT,
                max_field_size=_HEADER_LINE_LIMIT,
                max_headers=_HEADER_COUNT_LIMIT,
                middlewares=(_send_once,),
            )
        return self._session

    def _open_socket(self, target: aiohttp.AddrInfoType) -> socket.socket:
        """Every connection begins here, whatever way its address came: it is looked at once more."""
        family, kind, protocol, _, (address, port, *_) = target
        if refusals := self._egress.guard.check_address(_under_way.get().host, address, port):
            raise BlockedAddress("; ".join(refusals))
        return socket.socket(family=family, type=kind, proto=protocol)


async def _send_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Hides lost connections from the session, which would send idempotent verbs a second time by itself."""
    _under_way.get().request = request
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError):
        raise
    except (aiohttp.ClientConnectionError, OSError) as problem:
        raise ConnectionLost from problem


def _refuse_form(url: str, headers: Mapping[str, str]) -> Failure | None:
    refusals = [*check_url(url), *check_headers(headers)]
    return Failure(INVALID_REQUEST, "; ".join(refusals)) if refusals else None


def _kept_headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    headers = response.headers
    return {name: headers[name][:_KEPT_HEADER_LENGTH] for name in KEPT_HEADERS if name in headers}


def _log_fields(request: WebhookRequest) -> dict[str, str]:
    return {"task": request.task_id, "key": request.idempotency_key, "trigger": request.trigger}


def _answer(progress: _Progress, failure: Failure | None, duration_secs: float) -> WebhookAnswer:
    status, body = progress.status, progress.body
    content = body.content if body is not None else b""
    if failure is None or (status is not None and not 200 <= status <= 299):
        truncated = failure is not None or (body is not None and body.truncated)
        return WebhookAnswer(status, duration_secs, content, truncated, progress.headers)
    announced = "" if status is None else f"HTTP {status} was announced, but "
    return WebhookAnswer(
        status=None,
        duration_secs=duration_secs,
        body=content,
        truncated=status is not None,
        headers=progress.headers,
        error_code=failure.code,
        error=announced + failure.text,
    )
