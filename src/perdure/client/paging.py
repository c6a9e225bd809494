"""Listings, fetched page by page while somebody iterates."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar

from perdure.client.conversation import Conversation, decode
from perdure.client.results import ShortTask

Entry = TypeVar("Entry")

PAGE_SIZE = 100


async def tasks_by_cursor(
    server: Conversation, query: Mapping[str, Any], limit: int | None
) -> AsyncIterator[ShortTask]:
    """Every task that there was when its page was asked for, once."""
    cursor: str | None = None
    left = limit
    while left is None or left > 0:
        size = PAGE_SIZE if left is None else min(PAGE_SIZE, left)
        answer = await server.ask("GET", "/task", query={**query, "page_size": size, "cursor": cursor})
        found = decode(answer, list[ShortTask])
        for one in found:
            yield one
        cursor = answer.headers.get("x-next-cursor")
        left = None if left is None else left - len(found)
        if cursor is None:
            return


async def by_number(
    server: Conversation,
    shape: type[Entry],
    path: str,
    query: Mapping[str, Any],
    limit: int | None,
    identify: Callable[[Entry], str],
) -> AsyncIterator[Entry]:
    """By numbers of pages, where there are no cursors. What moves to a later page meanwhile is not shown twice."""
    shown: set[str] = set()
    page = 0
    while limit is None or len(shown) < limit:
        asked = {**query, "page": page, "page_size": PAGE_SIZE}
        found: list[Entry] = await server.read(list[shape], "GET", path, query=asked)  # type: ignore[valid-type]
        for one in found:
            if identify(one) not in shown and (limit is None or len(shown) < limit):
                shown.add(identify(one))
                yield one
        if len(found) < PAGE_SIZE:
            return
        page += 1
