"""Where submissions are handed in: a connection of the program's own, in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from perdure.app.portal import Portal
from perdure.assemble import Instance, make_instance
from perdure.config import Settings
from perdure.domain.drafts import BatchDraft
from perdure.domain.model import Task
from perdure.engine.commands import Commands
from perdure.engine.wakeups import Topic
from perdure.store.interface import Session
from perdure.store.lookups import find_batch, find_task
from perdure.store.verbs.submit import Submit, Submitted, submit

Result = TypeVar("Result")


class Desk:
    """Opens the database when it is first asked for something. Plain and async code use it alike, from any thread."""

    def __init__(self, load_settings: Callable[[], Settings]) -> None:
        self._load_settings = load_settings
        self._portal = Portal("perdure")
        self._instance: Instance | None = None
        self._opening: asyncio.Lock | None = None

    async def ask(self, question: Callable[[Commands], Awaitable[Result]]) -> Result:
        return await asyncio.wrap_future(self._portal.submit(self._ask(question)))

    def ask_blocking(self, question: Callable[[Commands], Awaitable[Result]]) -> Result:
        return self._portal.submit(self._ask(question)).result()

    async def submit(self, draft: BatchDraft, connection: Any = None) -> Submitted:
        """Store a batch; with a `connection`, within the transaction that is open on it."""
        if connection is None:
            return await self.ask(lambda commands: commands.submit(draft))
        instance = await self._on_portal(self._open())
        item = Submit(instance.engine.commands.prepare(draft))

        async def store(session: Session) -> Submitted:
            (submitted,) = await submit(session, [item])
            assert isinstance(submitted, Submitted)
            return submitted

        return await instance.store.write_within(connection, store, [Topic.START, Topic.WORK, Topic.DUE])

    def submit_blocking(self, draft: BatchDraft) -> Submitted:
        return self.ask_blocking(lambda commands: commands.submit(draft))

    async def find_task(self, id: str) -> Task:
        return await self._read(lambda session: _task(session, id))

    async def live_tasks(self, batch_id: str) -> int:
        """How many tasks of a batch are not over."""
        return await self._read(lambda session: _live(session, batch_id))

    async def _read(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        async def read() -> Result:
            return await (await self._open()).store.read(work)

        return await self._on_portal(read())

    async def _on_portal(self, work: Coroutine[Any, Any, Result]) -> Result:
        return await asyncio.wrap_future(self._portal.submit(work))

    async def _ask(self, question: Callable[[Commands], Awaitable[Result]]) -> Result:
        return await question((await self._open()).engine.commands)

    async def _open(self) -> Instance:
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._instance is None:
                settings = self._load_settings()
                instance = make_instance(settings, settings.callback_url())
                await instance.store.open()
                await instance.engine.start(work=False)
                self._instance = instance
            return self._instance

    async def _shut(self) -> None:
        if self._instance is not None:
            await self._instance.engine.stop()
            await self._instance.store.close()
            self._instance = None
        self._opening = None

    def close(self) -> None:
        self._portal.submit(self._shut()).result()
        self._portal.close()


async def _task(session: Session, id: str) -> Task:
    return (await find_task(session, id)).task


async def _live(session: Session, batch_id: str) -> int:
    _, totals = await find_batch(session, batch_id)
    return totals.live
