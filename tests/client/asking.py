"""Asks either client in the same way, so that one test is about both."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from perdure.client import AsyncClient, Client

BOTH = ("async", "plain")


class Asker:
    def __init__(self, client: AsyncClient | Client) -> None:
        self._client = client

    async def __call__(self, operation: str, *arguments: Any, **named: Any) -> Any:
        """The answer of an operation; all entries, if it is a listing."""
        if isinstance(self._client, Client):
            return await asyncio.to_thread(self._ask_plainly, operation, *arguments, **named)
        answer = getattr(self._client, operation)(*arguments, **named)
        return await answer if inspect.isawaitable(answer) else [entry async for entry in answer]

    def _ask_plainly(self, operation: str, *arguments: Any, **named: Any) -> Any:
        answer = getattr(self._client, operation)(*arguments, **named)
        return list(answer) if inspect.isgenerator(answer) else answer


@asynccontextmanager
async def asking(way: str, url: str, **options: Any) -> AsyncIterator[Asker]:
    """A client of the server at `url`; `way` is one of BOTH."""
    if way == "async":
        async with AsyncClient(url, **options) as client:
            yield Asker(client)
    else:
        with Client(url, **options) as plain:
            yield Asker(plain)
