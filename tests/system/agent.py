"""The other side: takes calls, works on tasks, and reports to their handles."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Self

import aiohttp
from aiohttp import web
from yarl import URL

from tests.engine.definitions import Definition, task, webhook
from tests.support.receiver import ReceivedRequest, Receiver

#: On a busy machine an answer may take a while; here that is no failure.
PATIENCE_SECS = 60


class Agent:
    """Finishes nothing by itself, until it is told to."""

    def __init__(self, receiver: Receiver, session: aiohttp.ClientSession) -> None:
        self.receiver = receiver
        self.calls: list[ReceivedRequest] = []
        """The on_start calls in order of their arrival."""
        self.held = 0
        """How many calls wait for an answer that will never come."""
        self.most_running: Counter[str] = Counter()
        """The most tasks of a group that ran at the same time, as seen from here."""
        self._session = session
        self._handles: dict[str, URL] = {}
        self._groups: dict[str, str] = {}
        self._running: Counter[str] = Counter()
        self._outcomes: dict[str, str] = {}
        self._by_default: str | None = None
        self._answered_calls: float = math.inf
        self._server: URL | None = None
        self._moved = asyncio.Event()
        self._changed = asyncio.Condition()
        self._reports: set[asyncio.Task[Any]] = set()
        self._errors: list[BaseException] = []
        receiver.answer("/start", self._take, times=None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        for report in self._reports:
            report.cancel()
        if self._reports:
            await asyncio.wait(self._reports)
        if self._errors:
            raise BaseExceptionGroup("Reports of the agent failed", self._errors)

    def task(self, id: str, *dependencies: str | dict[str, Any], group: str = "", **members: Any) -> Definition:
        """A task that is done here, whose end and cancel are told to `/ended` and `/canceled`."""
        body = {"key": id, "group": group}
        return task(
            id,
            *dependencies,
            on_start=webhook(self.receiver.url("/start"), body=body, timeout=PATIENCE_SECS),
            on_success=[webhook(self.receiver.url("/ended"), body={**body, "status": "Success"})],
            on_failure=[webhook(self.receiver.url("/ended"), body={**body, "status": "Failure"})],
            on_cancel=[webhook(self.receiver.url("/canceled"), body=body)],
            **members,
        )

    def finish_by_itself(self, by_default: str | None = "Success", **outcomes: str) -> None:
        """Report each task that is called from now on: as said for its key, else as said for all (None: silence)."""
        self._by_default = by_default
        self._outcomes.update(outcomes)

    def answer_only(self, count: int | None) -> None:
        """Leave all calls after so many without an answer (None: answer all)."""
        self._answered_calls = math.inf if count is None else count

    def find_server_at(self, url: str) -> None:
        """From now on the handles lead there, as if the server had moved behind a proxy."""
        self._server = URL(url)
        self._moved.set()

    @property
    def keys(self) -> list[str]:
        """The keys of the tasks in the order in which they were called."""
        return [request.json()["key"] for request in self.calls]

    async def wait_for(self, *keys: str, timeout: float = 30) -> None:
        """Wait until these tasks have been called and their calls answered."""
        wanted = set(keys)
        async with asyncio.timeout(timeout), self._changed:
            await self._changed.wait_for(lambda: wanted <= set(self._handles))

    async def wait_until_held(self, count: int, timeout: float = 30) -> None:
        """Wait until so many calls wait for an answer in vain."""
        async with asyncio.timeout(timeout), self._changed:
            await self._changed.wait_for(lambda: self.held >= count)

    async def report(self, key: str, status: str, **members: Any) -> int:
        """Report to the handle of a task; the status of the answer."""
        if status == "Failure":
            members.setdefault("failure_reason", "it broke")
        self._running[self._groups[key]] -= 1
        while True:
            handle = self._handles[key]
            if self._server is not None:
                handle = handle.with_host(self._server.host or "").with_port(self._server.port)
            try:
                async with self._session.patch(handle, json={"status": status, **members}) as response:
                    return response.status
            except aiohttp.ClientConnectorError:
                # As a good receiver does: when the server is back, it hears the result.
                await self._moved.wait()
            except aiohttp.ClientConnectionError:
                # Closed while it was idle, or the server is going down: another connection will tell.
                continue

    async def told(self, path: str, *keys: str, timeout: float = 30) -> None:
        """Wait until the end (`/ended`) or the cancel (`/canceled`) of these tasks was told."""
        wanted = set(keys)
        count = len(wanted)
        while True:
            requests = await self.receiver.wait_for(count, path, timeout)
            if wanted <= {request.json()["key"] for request in requests}:
                return
            count = len(requests) + 1

    async def _take(self, request: ReceivedRequest) -> web.Response:
        called = request.json()
        key, group = called["key"], called["group"]
        self.calls.append(request)
        if len(self.calls) > self._answered_calls:
            await self._leave_unanswered()
        self._handles[key], self._groups[key] = URL(request.query["handle"]), group
        self._running[group] += 1
        self.most_running[group] = max(self.most_running[group], self._running[group])
        await self._tell()
        outcome = self._outcomes.get(key, self._by_default)
        if outcome is not None:
            self._spawn(self._finish(key, outcome))
        return web.Response(status=202)

    async def _leave_unanswered(self) -> None:
        self.held += 1
        await self._tell()
        # Ends with the connection of the caller.
        await asyncio.get_running_loop().create_future()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _finish(self, key: str, outcome: str) -> None:
        status = await self.report(key, outcome)
        assert status in (200, 409), f"the report about {key} was answered with {status}"

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        report = asyncio.create_task(work)
        self._reports.add(report)
        report.add_done_callback(self._reported)

    def _reported(self, report: asyncio.Task[Any]) -> None:
        self._reports.discard(report)
        if not report.cancelled() and (error := report.exception()) is not None:
            self._errors.append(error)
