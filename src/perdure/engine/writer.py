"""The group-committing writer: commands that arrive while a transaction is under way share the next one.

That is where the speed comes from: one commit for many changes, each caller getting its own result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from perdure.domain.errors import PerdureError, Unavailable
from perdure.store.interface import Session, Store

log = logging.getLogger("perdure.engine")

Item = TypeVar("Item")
Result = TypeVar("Result")
Verb = Callable[[Session, Sequence[Item]], Awaitable[Sequence[Result | PerdureError]]]

MOST_WAITING = 100_000


@dataclass(slots=True)
class _Command:
    verb: Verb[Any, Any]
    item: Any
    done: asyncio.Future[Any]


class Writer:
    """Applies verbs to the store, many items to a transaction."""

    def __init__(self, store: Store, group_limit: int = 500) -> None:
        self._store = store
        self._group_limit = group_limit
        self._waiting: list[_Command] = []
        self._draining: asyncio.Task[None] | None = None

    async def do(self, verb: Verb[Item, Result], item: Item) -> Result:
        """Apply `verb` to `item`, on disk when this returns; refusals are raised."""
        if len(self._waiting) >= MOST_WAITING:
            raise Unavailable("Too many changes are waiting to be written; try again in a moment.")
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Command(verb, item, done))
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain(), name="writer")
        result = await done
        if isinstance(result, PerdureError):
            raise result
        return result  # type: ignore[no-any-return]  # the verb's own type, lost in the queue

    async def idle(self) -> None:
        """Wait until everything handed in is written."""
        while self._draining is not None:
            await asyncio.wait([self._draining])

    async def _drain(self) -> None:
        try:
            # One turn of the event loop, so that whoever is about to write too can come along.
            await asyncio.sleep(0)
            while self._waiting:
                group = self._waiting[: self._group_limit]
                del self._waiting[: self._group_limit]
                await self._commit(group)
        finally:
            self._draining = None
            for command in self._waiting:
                _settle(command, Unavailable("The server is shutting down."))
            self._waiting.clear()

    async def _commit(self, group: list[_Command]) -> None:
        try:
            results = await self._store.write(lambda session: _apply(session, group))
        except Unavailable as error:
            for command in group:
                _settle(command, error)
        except asyncio.CancelledError:
            for command in group:
                _settle(command, Unavailable("The server is shutting down."))
            raise
        except Exception as error:
            await self._commit_apart(group, error)
        else:
            for command, result in zip(group, results, strict=True):
                _settle(command, result)

    async def _commit_apart(self, group: list[_Command], error: Exception) -> None:
        """One command spoils the transaction of all: halve the group until it stands alone."""
        if len(group) == 1:
            log.error(
                "a change could not be written; it is refused",
                exc_info=error,
                extra={"fields": {"verb": getattr(group[0].verb, "__name__", "?")}},
            )
            if not group[0].done.done():
                group[0].done.set_exception(error)
            return
        half = len(group) // 2
        await self._commit(group[:half])
        await self._commit(group[half:])


def _settle(command: _Command, result: Any) -> None:
    if not command.done.done():
        command.done.set_result(result)


async def _apply(session: Session, group: list[_Command]) -> list[Any]:
    """Each verb once, with all of its items, in the order in which the verbs first came."""
    positions: dict[Verb[Any, Any], list[int]] = {}
    for position, command in enumerate(group):
        positions.setdefault(command.verb, []).append(position)
    results: list[Any] = [None] * len(group)
    for verb, places in positions.items():
        for place, result in zip(places, await verb(session, [group[at].item for at in places]), strict=True):
            results[place] = result
    return results
