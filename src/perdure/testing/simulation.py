"""The time machine: the real engine on a virtual clock, with seeded chance and scripted receivers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, Self

import msgspec

from perdure.api.requests import decode_batch, decode_tasks
from perdure.app.application import Perdure
from perdure.app.batch import Node
from perdure.app.handle import TaskHandle
from perdure.config import Settings
from perdure.domain.drafts import BatchDraft, ReportDraft
from perdure.domain.durations import parse_duration
from perdure.domain.errors import NotFound
from perdure.domain.model import Task
from perdure.domain.states import Status
from perdure.testing.clock import BEGINNING, VirtualClock
from perdure.testing.driver import Driver, NeverIdle
from perdure.testing.scripted_http import Endpoint
from perdure.testing.scripted_sender import Receivers, Sent
from perdure.testing.timeline import Attempt, Entry, Journal, show_timeline

#: Most moments at which something may happen in one run.
MOST_MOMENTS = 10_000
#: Real time that a function of a worker may take.
PATIENCE_SECS = 30.0

TaskReference = str | TaskHandle[Any] | Node
"""A task: its id, its key where that is unique, or what `submit` and `batch.add` of an application return."""


class SubmittedTasks(dict[str, str]):
    """The ids of the tasks of a batch by their keys."""

    def __init__(self, batch_id: str, ids: Mapping[str, str]) -> None:
        super().__init__(ids)
        self.batch_id = batch_id


class Simulation:
    """One engine, the applications that are used, and time that passes when it is told to.

    `database_url` names an empty database. Chance comes from `seed`: the same one gives the same moments. `settings`
    are those of the engine; without them, those of the first application that is used, or the defaults.
    """

    def __init__(
        self,
        database_url: str,
        *,
        seed: int = 0,
        start: datetime = BEGINNING,
        settings: Settings | None = None,
        patience_secs: float = PATIENCE_SECS,
    ) -> None:
        self.clock = VirtualClock(start)
        self._database_url = database_url
        self._random = Random(seed)
        self._settings = settings
        self._patience_secs = patience_secs
        self._receivers = Receivers(self.clock)
        self._journal = Journal()
        self._ids_by_key: dict[str, set[str]] = {}
        self._driver: Driver | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def now(self) -> datetime:
        """The present moment, in UTC."""
        return self.clock.now()

    # What happens outside

    def http(self, prefix: str) -> Endpoint:
        """Script what is behind the URLs that begin with `prefix`; whatever was scripted for it before is gone."""
        return self._receivers.endpoint(prefix)

    @property
    def sent(self) -> list[Sent]:
        """Every call so far, in order."""
        return list(self._receivers.sent)

    def sent_to(self, prefix: str) -> list[Sent]:
        """The calls to URLs that begin with `prefix`."""
        return [sent for sent in self._receivers.sent if sent.url.startswith(prefix)]

    # What is asked of the engine

    async def submit(self, tasks: Iterable[Mapping[str, Any]]) -> SubmittedTasks:
        """Submit tasks as `POST /task` takes them; raises Invalid."""
        return await self._submit(decode_tasks(msgspec.json.encode(list(tasks))))

    async def batch(self, tasks: Iterable[Mapping[str, Any]], **members: Any) -> SubmittedTasks:
        """Submit a batch as `POST /batch` takes it: with `name`, `namespace`, `context` or `retry`; raises Invalid."""
        return await self._submit(decode_batch(msgspec.json.encode({"tasks": list(tasks), **members})))

    async def _submit(self, draft: BatchDraft) -> SubmittedTasks:
        submitted = await (await self._opened()).commands.submit(draft)
        for task in submitted.tasks:
            self._ids_by_key.setdefault(task.key, set()).add(task.id)
        return SubmittedTasks(submitted.batch_id, {task.key: task.id for task in submitted.tasks})

    async def report(self, task: TaskReference, status: str | None = None, **members: Any) -> Task:
        """Report about a task as its receiver would by `PATCH /task/{id}`; the task as it is afterwards."""
        if status == Status.FAILURE.label:
            members.setdefault("failure_reason", "reported as failed")
        draft = ReportDraft(status=status, **members)
        return await (await self._opened()).commands.report(self._id_of(task), draft)

    async def cancel(self, task: TaskReference) -> Task:
        """Cancel a task by hand."""
        return await (await self._opened()).commands.cancel(self._id_of(task))

    async def retry(self, task: TaskReference) -> Task:
        """Try a task again by hand."""
        return await (await self._opened()).commands.retry(self._id_of(task))

    # Workers

    async def use(self, app: Perdure) -> None:
        """Let `app` submit to this simulation, and run its functions by a worker in virtual time.

        `asyncio.sleep` within them takes no real time. When the simulation ends, the application is as it was before.
        """
        await (await self._opened(app)).use(app)

    async def kill_worker(self) -> list[str]:
        """Let the worker vanish in the middle of its work, as by `kill -9`; returns the ids of the tasks it held.

        A worker that runs nothing takes first what it can get, and vanishes when the functions are through, before it
        reports. Its leases have to run out until another worker, which is there at once, gets the tasks.
        """
        return await (await self._opened()).kill_workers()

    # Time

    async def run_until_idle(self, most_moments: int = MOST_MOMENTS) -> datetime:
        """Let happen all that will ever happen, from one due moment to the next; returns the moment of the last.

        Raises NeverIdle after `most_moments`. What waits for a report waits until its timeout.
        """
        driver = await self._opened()
        await self._run(driver, None, most_moments)
        await driver.tidy_up()
        return self.now

    async def advance(self, by: float | str, most_moments: int = MOST_MOMENTS) -> datetime:
        """Let so much time pass, with everything that falls due on the way; `advance(0)` is for what is due now."""
        driver = await self._opened()
        until = self.now + timedelta(seconds=parse_duration(by))
        await self._run(driver, until, most_moments)
        if self.now < until:
            self.clock.set(until)
            await driver.run_due()
        await driver.tidy_up()
        return self.now

    async def _run(self, driver: Driver, until: datetime | None, most_moments: int) -> None:
        for _ in range(most_moments):
            await driver.run_due()
            moment = await driver.next_moment()
            if moment is None or (until is not None and moment > until):
                return
            self.clock.set(moment)
        raise NeverIdle(
            f"things still happen after {most_moments} moments, at {self.now}; advance() goes to a moment of your "
            "choice, and most_moments= allows for more"
        )

    # What became of it

    def status(self, task: TaskReference) -> str:
        """As people see it: `Running`, `RetryPending`, `Success`, …"""
        return self._journal.status(self._id_of(task))

    def attempts(self, task: TaskReference) -> list[Attempt]:
        """Every execution of a task so far, also one that is under way."""
        return self._journal.attempts(self._id_of(task))

    def timeline(self, task: TaskReference) -> list[Entry]:
        """What happened, as pairs: seconds from the submission, and what it was."""
        id = self._id_of(task)
        told = [
            Entry((sent.at - self._journal.submitted_at(id)).total_seconds(), f"{sent.trigger} webhook: {sent.answer}")
            for sent in self._receivers.sent
            if sent.task_id == id and sent.trigger != "start"
        ]
        return sorted([*self._journal.entries(id), *told], key=lambda entry: entry.seconds)

    def assert_attempts(self, task: TaskReference, count: int) -> None:
        """Fail, and show the timeline, if the task was not executed so many times."""
        __tracebackhide__ = True
        made = len(self.attempts(task))
        if made != count:
            raise AssertionError(f"{count} attempts were expected, {made} were made:\n{self._show(task)}")

    def assert_status(self, task: TaskReference, status: str) -> None:
        """Fail, and show the timeline, if the task shows another status."""
        __tracebackhide__ = True
        shown = self.status(task)
        if shown != status:
            raise AssertionError(f"{status} was expected, the task is {shown}:\n{self._show(task)}")

    def _show(self, task: TaskReference) -> str:
        return show_timeline(self.timeline(task))

    def _id_of(self, task: TaskReference) -> str:
        if isinstance(task, Node):
            return task.handle.id
        if isinstance(task, TaskHandle):
            return task.id
        if task in self._journal:
            return task
        ids = self._ids_by_key.get(task, set())
        if len(ids) > 1:
            raise ValueError(f"{len(ids)} tasks have the key {task!r}; name one by what submit() returned for it")
        if not ids:
            raise NotFound("task", task)
        (id,) = ids
        return id

    # Beginning and end

    async def _opened(self, app: Perdure | None = None) -> Driver:
        """Everything is made when it is first needed, in the event loop of the test."""
        if self._driver is None:
            settings = self._settings or (Settings() if app is None else app.settings())
            settings = replace(settings, server=replace(settings.server, database_url=self._database_url))
            driver = Driver(settings, self.clock, self._random, self._receivers, self._journal, self._patience_secs)
            await driver.open()
            self._loop = asyncio.get_running_loop()
            self._driver = driver
        return self._driver

    async def close(self) -> None:
        """Let go of the database and of the applications; what became of the tasks can still be asked."""
        if self._driver is not None:
            driver, self._driver = self._driver, None
            await driver.close()

    def close_after_test(self) -> None:
        """The same for a fixture that is not async: the test is over, but its event loop may be there still."""
        if self._loop is None or self._loop.is_closed():
            asyncio.run(self.close())
        else:
            self._loop.run_until_complete(self.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()
