"""Stands in for the network: takes the engine's calls, and answers them by script when their moment comes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from perdure.clock import Clock
from perdure.testing.scripted_http import Endpoint, Reply
from perdure.webhooks.egress import Egress
from perdure.webhooks.envelope import outgoing_headers
from perdure.webhooks.failures import CONNECTION_ERROR, INVALID_REQUEST, READ_TIMEOUT
from perdure.webhooks.request import WebhookAnswer, WebhookRequest
from perdure.webhooks.secrets import UnknownSecret
from perdure.webhooks.signing import Signer
from perdure.webhooks.target import split_url

#: Where a real call would carry a random one.
TRACEPARENT = "00-00000000000000000000000000000001-0000000000000001-01"


@dataclass(frozen=True, slots=True)
class Sent:
    """One call as the receiver saw it, and what came of it."""

    url: str
    """As the task gives it; the call itself carries `handle` in its query besides."""
    verb: str
    body: Any
    """The JSON, read; None if there was none."""
    headers: Mapping[str, str] = field(repr=False)
    """Whatever the case of the names: `headers["idempotency-key"]`."""
    key: str
    """The idempotency key: the same if the same event is told again."""
    task_id: str
    trigger: str
    """start, success, failure or cancel."""
    attempt: int
    handle: str = field(repr=False)
    at: datetime
    answer: str
    """`HTTP 503`, or why there was none."""


@dataclass(slots=True)
class _Call:
    request: WebhookRequest
    answered: asyncio.Future[WebhookAnswer]
    answer: WebhookAnswer | None = None
    due_at: datetime | None = None


@dataclass(slots=True)
class Receivers:
    """Everybody who can be called: those with a script, and all others, who answer 200."""

    clock: Clock
    sent: list[Sent] = field(default_factory=list)
    """Every call, in order."""
    _endpoints: dict[str, Endpoint] = field(default_factory=dict)

    def endpoint(self, prefix: str) -> Endpoint:
        """A new script for the URLs that begin with `prefix`; replaces the one that was there."""
        endpoint = Endpoint(prefix, self.clock)
        self._endpoints[prefix] = endpoint
        return endpoint

    def reply_to(self, url: str) -> Reply:
        """What is answered to a call made now; the longest prefix counts."""
        fitting = [prefix for prefix in self._endpoints if url.startswith(prefix)]
        return self._endpoints[max(fitting, key=len)].reply_to_call() if fitting else Reply()


class ScriptedSender:
    """A `Sender` whose answers come when `answer_due` is called, in the order of the idempotency keys."""

    def __init__(self, receivers: Receivers, egress: Egress, signer: Signer) -> None:
        self._receivers = receivers
        self._clock = receivers.clock
        self._egress = egress
        self._signer = signer
        self._calls: list[_Call] = []

    async def send(self, request: WebhookRequest) -> WebhookAnswer:
        call = _Call(request, asyncio.get_running_loop().create_future())
        self._calls.append(call)
        try:
            return await call.answered
        finally:
            if call in self._calls:
                self._calls.remove(call)

    async def close(self) -> None:
        """Cut off the calls that are under way."""
        for call in self._calls:
            call.answered.cancel()

    @property
    def waiting(self) -> int:
        """How many calls wait for their answer."""
        return len(self._calls)

    @property
    def next_moment(self) -> datetime | None:
        """When the next answer comes."""
        return min((call.due_at for call in self._calls if call.due_at is not None), default=None)

    def answer_due(self) -> int:
        """Decide about new calls, and answer those whose moment has come; how many those were."""
        # Calls that came together come in an order of chance; who gets which answer must not depend on it.
        self._calls.sort(key=lambda call: call.request.idempotency_key)
        for call in self._calls:
            if call.due_at is None:
                self._decide(call)
        now = self._clock.now()
        due = [call for call in self._calls if call.due_at is not None and call.due_at <= now]
        for call in due:
            self._calls.remove(call)
            if not call.answered.done():
                assert call.answer is not None
                call.answered.set_result(call.answer)
        return len(due)

    def _decide(self, call: _Call) -> None:
        request = call.request
        now = self._clock.now()
        try:
            given = self._egress.secrets.resolve(request.headers)
        except UnknownSecret as problem:
            call.answer, call.due_at = WebhookAnswer(None, 0.0, error_code=INVALID_REQUEST, error=str(problem)), now
            return
        call.answer = self._answer(request)
        call.due_at = now + timedelta(seconds=call.answer.duration_secs)
        signature = self._signer.sign(request.idempotency_key, (request.body or "").encode())
        self._receivers.sent.append(
            Sent(
                url=request.url,
                verb=request.verb,
                body=None if request.body is None else msgspec.json.decode(request.body),
                headers=outgoing_headers(request, given, TRACEPARENT, signature),
                key=request.idempotency_key,
                task_id=request.task_id,
                trigger=request.trigger,
                attempt=request.attempt,
                handle=request.handle,
                at=now,
                answer=call.answer.describe(),
            )
        )

    def _answer(self, request: WebhookRequest) -> WebhookAnswer:
        reply = self._receivers.reply_to(request.url)
        origin, _ = split_url(request.url)
        where = f"{origin.host}:{origin.port}"
        if reply.takes_secs > request.timeout_secs:
            text = f"no complete answer from {where} within {request.timeout_secs:g} s"
            return WebhookAnswer(None, request.timeout_secs, error_code=READ_TIMEOUT, error=text)
        if reply.error_code is not None:
            refused = reply.error_code == CONNECTION_ERROR
            text = f"connection refused by {where}" if refused else f"{where} cannot be called: {reply.error_code}"
            return WebhookAnswer(None, reply.takes_secs, error_code=reply.error_code, error=text)
        return WebhookAnswer(reply.status, reply.takes_secs, reply.body, headers=reply.headers)
