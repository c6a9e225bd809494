"""Carries the requests of async code."""

from __future__ import annotations

import asyncio
import io

import aiohttp
from yarl import URL

from perdure.client.errors import ClientError
from perdure.client.transport import LONGEST_REST_SECS, Request, Response, limit, not_answered, not_connected


class _Lost(Exception):
    """A connection that broke, in a form that the session does not know."""


class HttpTransport:
    """For async code: one pooled session, opened when it is first needed, in the event loop of that moment."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(self, request: Request) -> Response:
        session = self._open()
        silence = limit(self._timeout, request)
        try:
            async with session.request(
                request.method,
                URL(self._url + request.target, encoded=True),
                headers=dict(request.headers),
                # From a file, because the library warns of bytes that would hold up the event loop.
                data=None if request.body is None else io.BytesIO(request.body),
                timeout=aiohttp.ClientTimeout(sock_connect=silence, sock_read=silence),
                allow_redirects=False,
            ) as answer:
                headers = {name.lower(): value for name, value in answer.headers.items()}
                return Response(answer.status, headers, await answer.read())
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise not_connected(self._url, error) from error
        except _Lost as error:
            raise not_answered(self._url, request, error.__cause__ or error) from error.__cause__
        except (aiohttp.ClientError, OSError) as error:
            raise not_answered(self._url, request, error) from error

    def _open(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None:
            self._loop = loop
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(keepalive_timeout=LONGEST_REST_SECS),
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                middlewares=(_send_once,),
            )
        elif self._loop is not loop:
            raise ClientError("This client belongs to another event loop; make one within each, or use Client.")
        return self._session

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()


async def _send_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Hides lost connections from the session, which would send PUT and DELETE a second time by itself."""
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError):
        raise
    except (aiohttp.ClientConnectionError, OSError) as error:
        raise _Lost from error
