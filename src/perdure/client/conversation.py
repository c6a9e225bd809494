"""Asking politely: what may be repeated is, after growing waits, as long as it makes sense."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from perdure.client.errors import ClientError, UnexpectedAnswer, Unreachable, invalid, refusal
from perdure.client.transport import Request, Response, Transport
from perdure.clock import SystemClock, monotonic
from perdure.domain.requested_delay import read_delay

Answer = TypeVar("Answer")
Accepts = Callable[[Response], bool]

FIRST_WAIT_SECS = 0.2
LONGEST_WAIT_SECS = 10.0
#: A server that asks for more is told no.
LONGEST_REQUESTED_SECS = 60.0
#: After so long nothing is asked again.
PATIENCE_SECS = 180.0
#: A look at something gets this much, however little is left of the time for waiting.
SHORTEST_LOOK_SECS = 5.0
_BUSY = frozenset({429, 502, 503, 504})
_STILL_PROCESSING = "urn:perdure:problem:still-processing"
_VISIBLE = re.compile(r"[!-~]+")


def accepts_success(answer: Response) -> bool:
    return answer.status < 400


class Conversation:
    """Requests to one server."""

    def __init__(self, transport: Transport, retries: int, token: str | None) -> None:
        if token is not None and not _VISIBLE.fullmatch(token):
            raise ClientError("A token is made of visible ASCII characters, without spaces and line breaks.")
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
        accepts: Accepts = accepts_success,
        until: float | None = None,
    ) -> Response:
        """The answer of a server that did what was asked; raises Refused, Unreachable or UnexpectedAnswer.

        `repeatable`: doing it twice is as good as doing it once; by default that holds for GET. `accepts`: what
        is no refusal here. `until`: the monotonic time after which an answer is of no use.
        """
        sent_headers = {**self._headers, **(headers or {})}
        if body is not None:
            sent_headers["Content-Type"] = "application/json"
        request = Request(
            method,
            path + _query(query or {}),
            sent_headers,
            None if body is None else encode(body),
            None if until is None else max(until - monotonic(), SHORTEST_LOOK_SECS),
        )
        repeatable = method == "GET" if repeatable is None else repeatable
        answer = await self._send(request, repeatable, accepts, until)
        if not accepts(answer):
            raise refusal(answer.status, _problem(answer))
        return answer

    async def read(self, shape: type[Answer], method: str, path: str, **more: Any) -> Answer:
        """The body of an answer."""
        return decode(await self.ask(method, path, **more), shape)

    async def _send(self, request: Request, repeatable: bool, accepts: Accepts, until: float | None) -> Response:
        give_up_at = monotonic() + PATIENCE_SECS
        was_sent = False
        for tried in range(self._retries + 1):
            last = tried == self._retries
            wait = self._wait(tried)
            try:
                answer = await self.transport.send(request)
            except Unreachable as error:
                was_sent = error.sent = was_sent or error.sent
                if last or (was_sent and not repeatable) or _is_past(give_up_at, wait):
                    raise
                if await self._is_waited_out(until, wait):
                    raise
            else:
                if last or accepts(answer) or not _may_change(answer, repeatable):
                    return answer
                was_sent = was_sent or answer.status != 429
                asked = read_delay(answer.headers.get("retry-after"), SystemClock().now()) or 0.0
                wait = max(wait, asked)
                if await self._is_waited_out(until, wait):
                    return answer
                if asked > LONGEST_REQUESTED_SECS or _is_past(give_up_at, wait):
                    return answer
            await self.transport.pause(wait)
        raise AssertionError("the last try returns or raises")

    async def _is_waited_out(self, until: float | None, wait: float) -> bool:
        """Whether an answer after this wait would come too late; the time that is left has passed then."""
        if until is None or not _is_past(until, wait):
            return False
        await self.transport.pause(max(0.0, until - monotonic()))
        return True

    def _wait(self, tried: int) -> float:
        return self._random.uniform(0, min(LONGEST_WAIT_SECS, FIRST_WAIT_SECS * 2**tried))


def _is_past(moment: float, wait: float) -> bool:
    return monotonic() + wait > moment


def encode(body: Any) -> bytes:
    """JSON; raises InvalidRequest for text and numbers that JSON does not have."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        raise invalid("body: must not contain lone surrogates") from None
    except RecursionError:
        raise invalid("body: is nested too deeply") from None
    except (ValueError, OverflowError) as error:
        raise invalid(f"body: cannot be written as JSON: {error}") from error


def decode(answer: Response, shape: type[Answer]) -> Answer:
    """The body of an answer that is no refusal; raises UnexpectedAnswer."""
    try:
        return msgspec.json.decode(answer.body, type=shape)
    except (msgspec.MsgspecError, ValueError) as error:
        begin = answer.body[:60].decode(errors="replace")
        raise UnexpectedAnswer(
            f"The answer is none that was expected: HTTP {answer.status}, {begin!r}. "
            f"Is it a perdure server, and of this version? ({error})"
        ) from error


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
