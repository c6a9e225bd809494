"""Carries the requests of plain code."""

from __future__ import annotations

import http.client
import selectors
import threading
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from perdure.client.transport import LONGEST_REST_SECS, Request, Response, limit, not_answered, not_connected
from perdure.clock import monotonic

_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)


@dataclass(frozen=True, slots=True)
class _Resting:
    """A connection that waits for its next request."""

    connection: http.client.HTTPConnection
    since: float

    @property
    def is_usable(self) -> bool:
        """Whether the other end still listens: there is something to read only when it has hung up."""
        if monotonic() - self.since > LONGEST_REST_SECS or self.connection.sock is None:
            return False
        with _Selector() as selector:
            selector.register(self.connection.sock, selectors.EVENT_READ)
            return not selector.select(0)


class BlockingTransport:
    """For plain code. Its coroutines never wait for anything but the socket, so one step runs each to its end.

    Any number of threads may use it: each request has a connection to itself, which then rests for the next one.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url
        self._timeout = timeout
        self._lock = threading.Lock()
        self._resting: list[_Resting] = []
        self._closed = False

    async def send(self, request: Request) -> Response:
        silence = limit(self._timeout, request)
        connection = self._take() or self._open(silence)
        try:
            if connection.sock is not None:
                connection.sock.settimeout(silence)
            answer = self._exchange(connection, request)
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise not_answered(self._url, request, error) from error
        except BaseException:
            # Somebody pressed Ctrl-C: the answer may come yet, and nobody must take it for the next one.
            connection.close()
            raise
        self._give_back(connection)
        return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, body)

    def _exchange(self, connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
        path = urlsplit(self._url).path + request.target
        try:
            connection.request(request.method, path, request.body, dict(request.headers))
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a long body does so before it has read all of it.
            return connection.getresponse()
        return connection.getresponse()

    def _take(self) -> http.client.HTTPConnection | None:
        """The connection that was used last, if it is still good."""
        while True:
            with self._lock:
                if not self._resting:
                    return None
                resting = self._resting.pop()
            if resting.is_usable:
                return resting.connection
            resting.connection.close()

    def _open(self, silence: float) -> http.client.HTTPConnection:
        parts = urlsplit(self._url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        opened = kind(parts.hostname or "", parts.port, timeout=silence)
        try:
            opened.connect()
        except OSError as error:
            opened.close()
            raise not_connected(self._url, error) from error
        return opened

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        # One that is to be closed after its answer has no socket any more.
        if connection.sock is None:
            return
        now = monotonic()
        with self._lock:
            here = [*self._resting, _Resting(connection, now)]
            self._resting = [] if self._closed else [one for one in here if now - one.since <= LONGEST_REST_SECS]
            dropped = [one for one in here if one not in self._resting]
        for one in dropped:
            one.connection.close()

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - nobody else runs here

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            resting, self._resting = self._resting, []
        for one in resting:
            one.connection.close()
