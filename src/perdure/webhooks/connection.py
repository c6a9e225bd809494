"""One connection: a request goes out, its answer comes back, and then perhaps the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from perdure.webhooks.answer import Answer
from perdure.webhooks.failures import BadAnswer, ConnectionLost

#: Who sends more 1xx than this is not listened to any longer: the time of the call runs out.
_INTERIM_LIMIT = 100
_SHOWN_LENGTH = 100


class Connection(asyncio.Protocol):
    """Serves one exchange at a time. `on_lost` is told once when nothing is left of it."""

    def __init__(self, destination: str, on_lost: Callable[[Connection], None]) -> None:
        self.destination = destination
        #: Another request may be written.
        self.usable = False
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._answered: asyncio.Future[None] | None = None
        self._unasked = b""

    async def exchange(self, request: bytes, answer: Answer, deadline: float) -> None:
        """Writes the request, once, and reads its answer until it is complete.

        Raises `TimeoutError` at the deadline, `ConnectionLost`, `BadAnswer` and `AnswerTooLarge`.
        """
        if not self.usable or self._transport is None:
            raise BadAnswer(f"it spoke unasked: {self._unasked!r}") if self._unasked else ConnectionLost()
        loop = asyncio.get_running_loop()
        self._answer, self._answered = answer, loop.create_future()
        timer = loop.call_at(deadline, self._run_out)
        try:
            self._transport.write(request)
            await self._answered
        finally:
            timer.cancel()
            self._answer = self._answered = None
            if not answer.reusable:
                self.drop()

    def drop(self) -> None:
        """Ends it now, whatever is under way."""
        self._end(ConnectionAbortedError())
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of uvloop are of no class of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self.usable = True

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self._unasked = data[:_SHOWN_LENGTH]
            self.drop()
            return
        try:
            answer.feed(data)
        except Exception as problem:
            self._settle(problem)
            return
        if answer.complete:
            self._settle()
        elif answer.interim_count > _INTERIM_LIMIT and self._transport is not None:
            self._transport.pause_reading()

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)
        self._on_lost(self)

    def _end(self, cause: Exception | None) -> None:
        self.usable = False
        if self._answer is None:
            return
        if cause is None and self._answer.end():
            self._settle()
        else:
            self._settle(ConnectionLost(cause, in_answer=self._answer.status is not None))

    def _run_out(self) -> None:
        self._settle(TimeoutError())

    def _settle(self, problem: Exception | None = None) -> None:
        if self._answered is None or self._answered.done():
            return
        if problem is None:
            self._answered.set_result(None)
        else:
            self._answered.set_exception(problem)
