"""The one way out: sends webhooks over HTTP, each bounded in time and size."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from perdure.webhooks.answer import Answer
from perdure.webhooks.connecting import Connector
from perdure.webhooks.connection import Connection
from perdure.webhooks.egress import Egress
from perdure.webhooks.envelope import new_traceparent, outgoing_headers
from perdure.webhooks.failures import (
    BLOCKED_ADDRESS,
    CONNECT_TIMEOUT,
    INVALID_REQUEST,
    READ_TIMEOUT,
    UNEXPECTED_ERROR,
    Failure,
    explain,
)
from perdure.webhooks.guard import check_headers, check_url
from perdure.webhooks.message import write_request
from perdure.webhooks.places import Places
from perdure.webhooks.pool import Pool
from perdure.webhooks.request import WebhookAnswer, WebhookRequest
from perdure.webhooks.secrets import UnknownSecret
from perdure.webhooks.signing import Signer
from perdure.webhooks.target import Target, target_of

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Call:
    """How far a call has come, for those who must say how it ended."""

    began: float
    #: The request could begin to leave: from then on there is somebody to answer it.
    connected: bool = False
    answer: Answer | None = None


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
        self._pool: Pool | None = None
        self._closed = False

    async def send(self, request: WebhookRequest) -> WebhookAnswer:
        try:
            headers = self._egress.secrets.resolve(request.headers)
        except UnknownSecret as problem:
            return _tell(None, Failure(INVALID_REQUEST, str(problem)), 0.0)
        if refusal := _refuse_form(request.url, headers):
            return _tell(None, refusal, 0.0)
        target = target_of(request.url)
        async with self._places.take(target.destination):
            read_clock = asyncio.get_running_loop().time
            call = _Call(began=read_clock())
            failure = await self._call(request, target, headers, call)
            told = _tell(call.answer, failure, read_clock() - call.began)
        return told if headers is request.headers else self._without_secrets(request, told)

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
        if self._pool is not None:
            await self._pool.close()

    async def _call(
        self, request: WebhookRequest, target: Target, headers: Mapping[str, str], call: _Call
    ) -> Failure | None:
        if refusals := self._egress.guard.check_host(target.host, target.port):
            return Failure(BLOCKED_ADDRESS, "; ".join(refusals))
        pool = self._open_pool()
        try:
            await self._exchange(pool, request, target, headers, call)
        except Exception as problem:
            return self._failure(problem, request, call, target.where)
        return None

    def _failure(self, problem: Exception, request: WebhookRequest, call: _Call, where: str) -> Failure:
        if isinstance(problem, TimeoutError):
            if call.connected:
                return Failure(READ_TIMEOUT, f"no complete answer from {where} within {request.timeout_secs:g} s")
            limit = min(self._connect_timeout_secs, request.timeout_secs)
            return Failure(CONNECT_TIMEOUT, f"no connection to {where} within {limit:g} s")
        failure = explain(problem, where)
        if failure is None:
            log.exception("calling a webhook failed unexpectedly", extra={"fields": _log_fields(request)})
            failure = Failure(UNEXPECTED_ERROR, f"calling {where} failed: {type(problem).__name__}")
        return failure

    async def _exchange(
        self, pool: Pool, request: WebhookRequest, target: Target, headers: Mapping[str, str], call: _Call
    ) -> None:
        body = None if request.body is None else request.body.encode()
        signature = self._signer.sign(request.idempotency_key, body or b"") if self._signer else {}
        outgoing = outgoing_headers(request, headers, new_traceparent(), signature)
        verb = request.verb.upper()
        message = write_request(verb, target.authority, target.asked_with(request.handle), outgoing, body)
        connection = pool.take(target.destination) or await self._connect(pool, request, target, call)
        call.connected = True
        call.answer = Answer(self._response_limit_bytes, bodiless=verb == "HEAD")
        try:
            await connection.exchange(message, call.answer, call.began + request.timeout_secs)
        finally:
            pool.give_back(connection)

    async def _connect(self, pool: Pool, request: WebhookRequest, target: Target, call: _Call) -> Connection:
        limit = min(self._connect_timeout_secs, request.timeout_secs)
        return await pool.connect(target, call.began + limit)

    def _open_pool(self) -> Pool:
        """Made at the first call because it belongs to the running event loop."""
        if self._closed:
            raise RuntimeError("This sender is closed; make a new one to send again.")
        if self._pool is None:
            self._pool = Pool(Connector(self._egress.guard), self._concurrency)
        return self._pool


def _refuse_form(url: str, headers: Mapping[str, str]) -> Failure | None:
    refusals = [*check_url(url), *check_headers(headers)]
    return Failure(INVALID_REQUEST, "; ".join(refusals)) if refusals else None


def _log_fields(request: WebhookRequest) -> dict[str, str]:
    return {"task": request.task_id, "key": request.idempotency_key, "trigger": request.trigger}


def _tell(answer: Answer | None, failure: Failure | None, duration_secs: float) -> WebhookAnswer:
    status = None if answer is None else answer.status
    body = None if answer is None else answer.body
    content = body.content if body is not None else b""
    headers = answer.headers if answer is not None and status is not None else {}
    if failure is None or (status is not None and not 200 <= status <= 299):
        truncated = failure is not None or (body is not None and body.truncated)
        return WebhookAnswer(status, duration_secs, content, truncated, headers)
    announced = "" if status is None else f"HTTP {status} was announced, but "
    return WebhookAnswer(
        status=None,
        duration_secs=duration_secs,
        body=content,
        truncated=status is not None,
        headers=headers,
        error_code=failure.code,
        error=announced + failure.text,
    )
