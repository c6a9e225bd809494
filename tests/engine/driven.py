"""An engine whose loops run when the test says so, by a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from perdure.assemble import Instance
from perdure.domain.drafts import ReportDraft
from perdure.domain.model import Task
from perdure.engine.commands import Commands
from perdure.engine.service import Engine
from perdure.store.changes import Changes, Row
from perdure.store.interface import Store
from perdure.store.lookups import find_task, read_attempts, read_deliveries, read_events
from perdure.testing import VirtualClock
from tests.engine.definitions import Definition, draft

HOST_URL = "http://perdure.test"


@dataclass(slots=True)
class Driven:
    """One instance; `commits` are the transactions that it has committed so far."""

    instance: Instance
    clock: VirtualClock
    commits: list[Changes] = field(default_factory=list)

    @property
    def engine(self) -> Engine:
        return self.instance.engine

    @property
    def commands(self) -> Commands:
        return self.instance.engine.commands

    async def submit(self, *tasks: Definition, **members: Any) -> dict[str, str]:
        """Store a batch; the ids of its tasks by key."""
        submitted = await self.commands.submit(draft(tasks, **members))
        return {stored.key: stored.id for stored in submitted.tasks}

    async def submit_one(self, definition: Definition) -> str:
        (id,) = (await self.submit(definition)).values()
        return id

    async def start(self) -> None:
        """Start everything that can start, and wait until every call has been answered and recorded."""
        while await self.engine.start_loop.run_once():
            await self.engine.start_loop.flights.settled()

    async def deliver(self) -> None:
        """Send every end and cancel webhook that is due, and wait until it is recorded."""
        while await self.engine.deliver_loop.run_once():
            await self.engine.deliver_loop.flights.settled()

    async def work(self) -> None:
        """One round of everything that happens by itself now."""
        await self.engine.timeout_loop.run_once()
        await self.engine.reap_loop.run_once()
        await self.engine.due_loop.run_once()
        await self.start()
        await self.deliver()

    async def report(self, id: str, status: str = "Success", **members: Any) -> Task:
        if status == "Failure":
            members.setdefault("failure_reason", "it broke")
        return await self.commands.report(id, ReportDraft(status=status, **members))

    async def touch(self, id: str, **members: Any) -> Task:
        """Report without an end."""
        return await self.commands.report(id, ReportDraft(**members))

    async def task(self, id: str) -> Task:
        return await read_task(self.instance.store, id)

    async def status(self, id: str) -> str:
        """As people see it."""
        task = await self.task(id)
        return "Paused" if task.paused and task.status.is_live else task.status.label

    async def statuses(self, ids: dict[str, str]) -> dict[str, str]:
        return {key: await self.status(id) for key, id in ids.items()}

    async def attempts(self, id: str) -> list[Row]:
        return await self.instance.store.read(lambda session: read_attempts(session, id))

    async def events(self, id: str) -> list[tuple[str, str]]:
        rows = await self.instance.store.read(lambda session: read_events(session, id))
        return [(row["from_status"], row["to_status"]) for row in rows]

    async def deliveries(self, id: str) -> dict[str, Row]:
        """The task's webhooks by idempotency key, without the id in front."""
        rows = await self.instance.store.read(lambda session: read_deliveries(session, id))
        return {row["idempotency_key"].removeprefix(f"{id}:"): row for row in rows}


async def read_task(store: Store, id: str) -> Task:
    return (await store.read(lambda session: find_task(session, id))).task


class MakeEngine(Protocol):
    async def __call__(self, **sections: Any) -> Driven: ...


async def eventually(condition: Callable[[], Awaitable[bool]], timeout: float = 10) -> None:
    """Wait until the condition holds, where nobody tells when it does."""
    async with asyncio.timeout(timeout):
        while not await condition():  # noqa: ASYNC110 - who could set an event is on the other side of a database
            await asyncio.sleep(0.01)
