"""Where submissions are handed in: a connection of the program's own, in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
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

#: Who may have something to do once a batch is committed.
_TOPICS = (Topic.START, Topic.WORK, Topic.DUE)


class Desk:
    """Opens the database when it is first asked for something. Plain and async code use it alike, from any thread."""

    def __init__(self, load_settings: Callable[[], Settings]) -> None:
        self._load_settings = load_settings
        self._portal = Portal("perdure")
        self._instance: Instance | None = None
        self._opening: asyncio.Lock | None = None

    async def ask(self, question: Callable[[Commands], Awaitable[Result]]) -> Result:
        return await self._on_portal(self._ask(question))

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do the work from plain code, in the thread of this desk."""
        done = self._portal.submit(work)
        try:
            return done.result()
        except BaseException:
            # Somebody pressed Ctrl-C: nobody waits for it any more.
            done.cancel()
            raise

    async def submit(self, draft: BatchDraft, connection: Any = None) -> Submitted:
        """Store a batch; with a `connection`, within the transaction that is open on it."""
        if connection is None:
            return await self.ask(lambda commands: commands.submit(draft))
        instance = await self._on_portal(self._open())
        item = Submit(instance.engine.commands.prepare(draft))
        return await instance.store.write_within(connection, partial(_store, item=item), _TOPICS)

    def submit_blocking(self, draft: BatchDraft, connection: Any = None) -> Submitted:
        """The same from plain code."""
        if connection is None:
            return self.run(self._ask(lambda commands: commands.submit(draft)))
        instance = self.run(self._open())
        item = Submit(instance.engine.commands.prepare(draft))
        return instance.store.write_within_blocking(connection, partial(_store, item=item))

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


async def _store(session: Session, item: Submit) -> Submitted:
    (submitted,) = await submit(session, [item])
    assert isinstance(submitted, Submitted)
    return submitted


async def _task(session: Session, id: str) -> Task:
    return (await find_task(session, id)).task


async def _live(session: Session, batch_id: str) -> int:
    _, totals = await find_batch(session, batch_id)
    return totals.live
