"""The client: every operation once, for async code; `perdure.client.blocking` has the same for plain code."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Self, TypeVar
from urllib.parse import quote

import msgspec
from uuid_utils import uuid4

from perdure.client.conversation import Conversation
from perdure.client.errors import TimedOut
from perdure.client.results import (
    Attempt,
    Batch,
    BatchSummary,
    Dag,
    Delivery,
    Event,
    Health,
    Pause,
    Preview,
    RetrySchedule,
    RetryStats,
    ShortTask,
    Stopped,
    Submitted,
    Task,
)
from perdure.client.transport import HttpTransport, Transport
from perdure.clock import monotonic

URL_VARIABLE = "PERDURE_URL"
DEFAULT_URL = "http://127.0.0.1:8000"
PAGE_SIZE = 100
FIRST_PAUSE_SECS = 0.05
LONGEST_PAUSE_SECS = 2.0

Entry = TypeVar("Entry")
Words = str | Sequence[str]


class AsyncClient:
    """Talks to a server.

    async with AsyncClient("http://127.0.0.1:8000") as client:
        submitted = await client.submit({"id": "a", "name": "A", "kind": "etl"})
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout: float = 30,
        retries: int = 5,
        transport: Transport | None = None,
    ) -> None:
        """Without `url`, PERDURE_URL says where the server is, else it is looked for on this machine.

        `timeout` bounds one request in seconds; `retries` says how often one is repeated that may be.
        """
        transport = transport or HttpTransport(server_url(url), timeout)
        self._server = Conversation(transport, retries, token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._server.transport.close()

    async def submit(
        self,
        tasks: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        name: str | None = None,
        namespace: str | None = None,
        context: Any = None,
        retry: Mapping[str, Any] | str | None = None,
        idempotency_key: str | None = None,
    ) -> Submitted:
        """Submit a task, several, or a whole batch `{"tasks": […], …}`: all of it or nothing.

        It may safely be repeated, and is, because it carries a key: a new one unless you give one.
        """
        batch = _envelope(tasks)
        given = {"name": name, "namespace": namespace, "context": context, "retry": retry}
        batch |= {member: value for member, value in given.items() if value is not None}
        headers = {"Idempotency-Key": idempotency_key or str(uuid4())}
        answer = await self._server.ask("POST", "/batch", body=batch, headers=headers, repeatable=True)
        if answer.status == 204:
            return Submitted(None, [])
        return msgspec.json.decode(answer.body, type=Submitted)

    async def task(self, id: str) -> Task:
        return await self._server.read(Task, "GET", _task(id))

    async def tasks(
        self,
        *,
        status: Words | None = None,
        kind: str | None = None,
        name: str | None = None,
        namespace: str | None = None,
        batch_id: str | None = None,
        timeout: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        error_class: str | None = None,
        due_before: datetime | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[ShortTask]:
        """Every task that is like this, the newest first, fetched page by page; at most `limit`."""
        query = {
            "status": status,
            "kind": kind,
            "name": name,
            "namespace": namespace,
            "batch_id": batch_id,
            "timeout": timeout,
            "metadata": metadata,
            "error_class": error_class,
            "due_before": due_before,
        }
        cursor: str | None = None
        left = limit
        while left is None or left > 0:
            size = PAGE_SIZE if left is None else min(PAGE_SIZE, left)
            answer = await self._server.ask("GET", "/task", query={**query, "page_size": size, "cursor": cursor})
            found = msgspec.json.decode(answer.body, type=list[ShortTask])
            for one in found:
                yield one
            cursor = answer.headers.get("x-next-cursor")
            left = None if left is None else left - len(found)
            if cursor is None:
                return

    async def attempts(self, id: str) -> list[Attempt]:
        """Every execution of a task that is over, oldest first."""
        return await self._server.read(list[Attempt], "GET", f"{_task(id)}/attempts")

    async def deliveries(self, id: str) -> list[Delivery]:
        """The webhooks of a task."""
        return await self._server.read(list[Delivery], "GET", f"{_task(id)}/deliveries")

    async def events(self, id: str) -> list[Event]:
        """Every change of a task's status."""
        return await self._server.read(list[Event], "GET", f"{_task(id)}/events")

    async def cancel(self, id: str) -> Task:
        return await self._server.read(Task, "DELETE", _task(id))

    async def pause(self, id: str) -> Task:
        return await self._server.read(Task, "PATCH", f"/task/pause/{quote(id, safe='')}")

    async def resume(self, id: str) -> Task:
        return await self._server.read(Task, "PATCH", f"/task/resume/{quote(id, safe='')}")

    async def retry(self, id: str, **edits: Any) -> Task:
        """Try a task again now; `payload`, `metadata`, `timeout`, `on_start` and `retry` change it first."""
        return await self._server.read(Task, "POST", f"{_task(id)}/retry", body=edits or None)

    async def report(self, id: str, *, attempt: int | None = None, status: str | None = None, **members: Any) -> Task:
        """Report about a task, as receivers of webhooks do: progress, or with `status` its end."""
        given = {"status": status, "attempt": attempt, **members}
        body = {member: value for member, value in given.items() if value is not None}
        return await self._server.read(Task, "PATCH", _task(id), body=body)

    async def count(self, id: str, *, new_success: int = 0, new_failures: int = 0) -> None:
        """Add to a task's counters soon."""
        await self._server.ask("PUT", _task(id), body={"new_success": new_success, "new_failures": new_failures})

    async def redrive(self, delivery_id: str) -> Delivery:
        """Send an end or cancel webhook once more."""
        return await self._server.read(Delivery, "POST", f"/deliveries/{quote(delivery_id, safe='')}/retry")

    async def batch(self, id: str) -> Batch:
        return await self._server.read(Batch, "GET", _batch(id))

    def batches(
        self,
        *,
        kind: str | None = None,
        name: str | None = None,
        status: Words | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[BatchSummary]:
        """Every batch that is like this, the newest first."""
        query = {
            "kind": kind,
            "name": name,
            "status": status,
            "created_after": created_after,
            "created_before": created_before,
        }
        return self._pages(BatchSummary, "/batches", query, limit)

    async def dag(self, batch_id: str) -> Dag:
        """The tasks of a batch and what they wait for."""
        return await self._server.read(Dag, "GET", f"/dag/{quote(batch_id, safe='')}")

    async def stop_batch(self, id: str) -> Stopped:
        """Cancel every live task of a batch; may be repeated."""
        return await self._server.read(Stopped, "DELETE", _batch(id), repeatable=True)

    async def retry_batch(self, id: str) -> dict[str, Any]:
        """Try everything again that failed in a batch."""
        return await self._server.read(dict[str, Any], "POST", f"{_batch(id)}/retry")

    async def wait(self, id: str, *, timeout: float | None = None) -> Task:
        """The task once it is over; raises TimedOut after `timeout` seconds."""
        pauses = _Pauses(timeout)
        while not (task := await self.task(id)).is_over:
            await self._server.transport.pause(pauses.next(f"Task {id} is {task.status}"))
        return task

    async def wait_batch(self, id: str, *, timeout: float | None = None) -> Batch:
        """The batch once all of its tasks are over; raises TimedOut after `timeout` seconds."""
        pauses = _Pauses(timeout)
        while not (batch := await self.batch(id)).is_over:
            await self._server.transport.pause(pauses.next(f"Batch {id} is not over"))
        return batch

    async def watch(self, batch_id: str, *, timeout: float | None = None) -> AsyncIterator[Batch]:
        """The batch now, and again after each change, until all of its tasks are over."""
        pauses = _Pauses(timeout)
        seen: Batch | None = None
        while True:
            batch = await self.batch(batch_id)
            if batch != seen:
                seen = batch
                pauses.shorten()
                yield batch
            if batch.is_over:
                return
            await self._server.transport.pause(pauses.next(f"Batch {batch_id} is not over"))

    def retries(
        self,
        *,
        status: Words | None = None,
        due_before: datetime | None = None,
        kind: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[RetrySchedule]:
        """Tasks and batches that failed and have a policy, by the moment of their next try."""
        query = {"status": status, "due_before": due_before, "kind": kind}
        return self._pages(RetrySchedule, "/retries", query, limit)

    async def retry_stats(self) -> RetryStats:
        return await self._server.read(RetryStats, "GET", "/retries/stats")

    async def preview(self, policy: Mapping[str, Any] | str) -> Preview:
        """What a retry policy would do."""
        return await self._server.read(Preview, "POST", "/retry/preview", body=policy, repeatable=True)

    async def pauses(self) -> list[Pause]:
        """Kinds and namespaces whose tasks are held back."""
        return await self._server.read(list[Pause], "GET", "/pauses")

    async def pause_kind(self, kind: str) -> None:
        await self._server.ask("PATCH", f"/kind/pause/{quote(kind, safe='')}")

    async def resume_kind(self, kind: str) -> None:
        await self._server.ask("PATCH", f"/kind/resume/{quote(kind, safe='')}")

    async def pause_namespace(self, namespace: str) -> None:
        await self._server.ask("PATCH", f"/namespace/pause/{quote(namespace, safe='')}")

    async def resume_namespace(self, namespace: str) -> None:
        await self._server.ask("PATCH", f"/namespace/resume/{quote(namespace, safe='')}")

    async def health(self) -> Health:
        return await self._server.read(Health, "GET", "/health")

    async def _pages(
        self, shape: type[Entry], path: str, query: Mapping[str, Any], limit: int | None
    ) -> AsyncIterator[Entry]:
        page, count = 0, 0
        while True:
            asked = {**query, "page": page, "page_size": PAGE_SIZE}
            found: list[Entry] = await self._server.read(list[shape], "GET", path, query=asked)  # type: ignore[valid-type]
            for one in found:
                if limit is not None and count >= limit:
                    return
                count += 1
                yield one
            if len(found) < PAGE_SIZE:
                return
            page += 1


class _Pauses:
    """Pauses between looks at something: short at first, longer while nothing changes."""

    def __init__(self, timeout: float | None) -> None:
        self._give_up_at = None if timeout is None else monotonic() + timeout
        self._pause = FIRST_PAUSE_SECS

    def shorten(self) -> None:
        self._pause = FIRST_PAUSE_SECS

    def next(self, state: str) -> float:
        pause, self._pause = self._pause, min(self._pause * 1.5, LONGEST_PAUSE_SECS)
        if self._give_up_at is None:
            return pause
        left = self._give_up_at - monotonic()
        if left <= 0:
            raise TimedOut(f"{state}; it was waited for as long as was asked.")
        return min(pause, left)


def server_url(given: str | None) -> str:
    """Where the server is."""
    return given or os.environ.get(URL_VARIABLE, "").strip() or DEFAULT_URL


def _envelope(tasks: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not isinstance(tasks, Mapping):
        return {"tasks": list(tasks)}
    return dict(tasks) if "tasks" in tasks else {"tasks": [tasks]}


def _task(id: str) -> str:
    return f"/task/{quote(id, safe='')}"


def _batch(id: str) -> str:
    return f"/batch/{quote(id, safe='')}"
