"""Asking politely: what may be repeated is, after growing waits, as long as it makes sense."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from perdure.client.errors import Unreachable, refusal
from perdure.client.transport import Request, Response, Transport
from perdure.clock import SystemClock
from perdure.domain.requested_delay import read_delay

Answer = TypeVar("Answer")

FIRST_WAIT_SECS = 0.2
LONGEST_WAIT_SECS = 10.0
#: A server that asks for more is told no.
LONGEST_REQUESTED_SECS = 60.0
_BUSY = frozenset({429, 502, 503, 504})
_STILL_PROCESSING = "urn:perdure:problem:still-processing"


class Conversation:
    """Requests to one server."""

    def __init__(self, transport: Transport, retries: int, token: str | None) -> None:
        self.transport = transport
        self._retries = retries
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._random = random.Random()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
    ) -> Response:
        """The answer of a server that did what was asked; raises Refused or Unreachable.

        `repeatable`: doing it twice is as good as doing it once; by default that holds for GET.
        """
        sent_headers = {**self._headers, **(headers or {})}
        if body is not None:
            sent_headers["Content-Type"] = "application/json"
        request = Request(
            method, path + _query(query or {}), sent_headers, None if body is None else msgspec.json.encode(body)
        )
        answer = await self._send(request, method == "GET" if repeatable is None else repeatable)
        if answer.status >= 400:
            raise refusal(answer.status, _problem(answer))
        return answer

    async def read(self, shape: type[Answer], method: str, path: str, **more: Any) -> Answer:
        """The body of an answer."""
        return msgspec.json.decode((await self.ask(method, path, **more)).body, type=shape)

    async def _send(self, request: Request, repeatable: bool) -> Response:
        for tried in range(self._retries + 1):
            last = tried == self._retries
            wait = self._wait(tried)
            try:
                answer = await self.transport.send(request)
            except Unreachable as error:
                if last or (error.sent and not repeatable):
                    raise
            else:
                if last or not _may_change(answer, repeatable):
                    return answer
                asked = read_delay(answer.headers.get("retry-after"), SystemClock().now()) or 0.0
                if asked > LONGEST_REQUESTED_SECS:
                    return answer
                wait = max(wait, asked)
            await self.transport.pause(wait)
        raise AssertionError("the last try returns or raises")

    def _wait(self, tried: int) -> float:
        return self._random.uniform(0, min(LONGEST_WAIT_SECS, FIRST_WAIT_SECS * 2**tried))


def _may_change(answer: Response, repeatable: bool) -> bool:
    """Whether asking again may get another answer, without doing anything twice."""
    if answer.status == 429:
        return True
    if not repeatable:
        return False
    return answer.status in _BUSY or (answer.status == 409 and _problem(answer).get("type") == _STILL_PROCESSING)


def _problem(answer: Response) -> dict[str, Any]:
    try:
        problem = msgspec.json.decode(answer.body)
    except msgspec.MsgspecError:
        problem = None
    return problem if isinstance(problem, dict) else {"title": f"The server answered {answer.status}"}


def _query(given: Mapping[str, Any]) -> str:
    parameters = [(name, _parameter(value)) for name, value in given.items() if value is not None]
    return f"?{urlencode(parameters, doseq=True)}" if parameters else ""


def _parameter(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return msgspec.json.encode(value).decode()
    return value
