"""The client: every operation once, for async code; `perdure.client.blocking` has the same for plain code."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Self
from urllib.parse import quote

from msgspec.structs import replace
from uuid_utils import uuid4

from perdure.client.address import server_url
from perdure.client.conversation import Conversation, decode
from perdure.client.errors import Unreachable, invalid
from perdure.client.paging import by_number, tasks_by_cursor
from perdure.client.patience import Patience, look
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
from perdure.client.transport import Response, Transport

LONGEST_KEY = 255

Words = str | Sequence[str]


class AsyncClient:
    """Talks to a server.

        async with AsyncClient("http://127.0.0.1:8000") as client:
            submitted = await client.submit({"id": "a", "name": "A", "kind": "etl"})

    Without `url`, PERDURE_URL says where the server is, else it is looked for on this machine. `timeout`: seconds for
    which the server may be silent. `retries`: how often a request is repeated that may be. One client serves any
    number of tasks of one event loop.
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
        if transport is None:
            # Whoever brings a transport does without the HTTP library, which takes a while to load.
            from perdure.client.awaiting_transport import HttpTransport

            transport = HttpTransport(server_url(url), timeout)
        self._server = Conversation(transport, retries, token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections."""
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
        key = str(uuid4()) if idempotency_key is None else _checked_key(idempotency_key)
        try:
            answer = await self._server.ask(
                "POST", "/batch", body=batch, headers={"Idempotency-Key": key}, repeatable=True
            )
        except Unreachable as error:
            if not error.sent:
                raise
            advice = f"Submit it again with idempotency_key={key!r}: it is stored once, however often you do."
            raise Unreachable(f"{error} {advice}", sent=True) from error
        return Submitted(None, []) if answer.status == 204 else decode(answer, Submitted)

    async def task(self, id: str) -> Task:
        """Everything about a task."""
        return await self._server.read(Task, "GET", _task(id))

    def tasks(
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
        return tasks_by_cursor(self._server, query, limit)

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
        """End a task, whatever it does; raises ConflictError if it is over already."""
        return await self._server.read(Task, "DELETE", _task(id))

    async def pause(self, id: str) -> Task:
        """Hold a task back until it is resumed."""
        return await self._server.read(Task, "PATCH", f"/task/pause/{quote(id, safe='')}")

    async def resume(self, id: str) -> Task:
        """Let a paused task go on."""
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
        """A batch with the counts of its tasks."""
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
        return by_number(self._server, BatchSummary, "/batches", query, limit, lambda batch: batch.batch_id)

    async def dag(self, batch_id: str) -> Dag:
        """The tasks of a batch and what they wait for."""
        return await self._server.read(Dag, "GET", f"/dag/{quote(batch_id, safe='')}")

    async def stop_batch(self, id: str) -> Stopped:
        """Cancel every live task of a batch; may be repeated."""
        return await self._server.read(Stopped, "DELETE", _batch(id), repeatable=True)

    async def retry_batch(self, id: str) -> dict[str, Any]:
        """Try everything again that failed in a batch."""
        return await self._server.read(dict[str, Any], "POST", f"{_batch(id)}/retry")

    async def change_rules(self, id: str, kind: str, rules: Sequence[Mapping[str, Any]]) -> int:
        """Replace the rules of a batch's live tasks of one kind; returns how many there were."""
        body = {"kind": kind, "rules": rules}
        changed = await self._server.read(dict[str, Any], "PATCH", f"{_batch(id)}/rules", body=body, repeatable=True)
        return int(changed["updated_count"])

    async def wait(self, id: str, *, timeout: float | None = None) -> Task:
        """The task once it is over; raises TimedOut after `timeout` seconds. A paused task is not over."""
        patience = Patience(f"Task {id}", timeout)
        while not (task := await look(self._server, Task, _task(id), patience)).is_over:
            await self._server.transport.pause(patience.next_pause(task.status))
        return task

    async def wait_batch(self, id: str, *, timeout: float | None = None) -> Batch:
        """The batch once all of its tasks are over; raises TimedOut after `timeout` seconds."""
        patience = Patience(f"Batch {id}", timeout)
        while not (batch := await look(self._server, Batch, _batch(id), patience)).is_over:
            await self._server.transport.pause(patience.next_pause(_counted(batch)))
        return batch

    async def watch(self, batch_id: str, *, timeout: float | None = None) -> AsyncIterator[Batch]:
        """The batch now, and again after each change, until all of its tasks are over."""
        patience = Patience(f"Batch {batch_id}", timeout)
        seen: Batch | None = None
        while True:
            batch = await look(self._server, Batch, _batch(batch_id), patience)
            # Signs of life move this time, and change nothing that could be seen.
            shown = replace(batch, latest_updated_at=None)
            if shown != seen:
                seen = shown
                patience.shorten()
                yield batch
            if batch.is_over:
                return
            await self._server.transport.pause(patience.next_pause(_counted(batch)))

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
        return by_number(self._server, RetrySchedule, "/retries", query, limit, lambda retry: retry.id)

    async def retry_stats(self) -> RetryStats:
        """How many retries wait, and how they went."""
        return await self._server.read(RetryStats, "GET", "/retries/stats")

    async def preview(self, policy: Mapping[str, Any] | str) -> Preview:
        """What a retry policy would do."""
        return await self._server.read(Preview, "POST", "/retry/preview", body=policy, repeatable=True)

    async def pauses(self) -> list[Pause]:
        """Kinds and namespaces whose tasks are held back."""
        return await self._server.read(list[Pause], "GET", "/pauses")

    async def pause_kind(self, kind: str) -> None:
        """Start no tasks of this kind until it is resumed."""
        await self._server.ask("PATCH", f"/kind/pause/{quote(kind, safe='')}")

    async def resume_kind(self, kind: str) -> None:
        """Let tasks of a paused kind start again."""
        await self._server.ask("PATCH", f"/kind/resume/{quote(kind, safe='')}")

    async def pause_namespace(self, namespace: str) -> None:
        """Start no tasks of this namespace until it is resumed."""
        await self._server.ask("PATCH", f"/namespace/pause/{quote(namespace, safe='')}")

    async def resume_namespace(self, namespace: str) -> None:
        """Let tasks of a paused namespace start again."""
        await self._server.ask("PATCH", f"/namespace/resume/{quote(namespace, safe='')}")

    async def health(self) -> Health:
        """Whether the server and its database work; a server that is not well says so here, and is not asked again."""
        return await self._server.read(Health, "GET", "/health", accepts=_tells_health)


def _envelope(tasks: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not isinstance(tasks, Mapping):
        return {"tasks": list(tasks)}
    return dict(tasks) if "tasks" in tasks else {"tasks": [tasks]}


def _checked_key(key: str) -> str:
    if not re.fullmatch(rf"[!-~]{{1,{LONGEST_KEY}}}", key):
        raise invalid(f"idempotency_key: must have 1 to {LONGEST_KEY} visible ASCII characters")
    return key


def _tells_health(answer: Response) -> bool:
    """A server that is not well says so with 503; whatever else stands between may say 503 too, but not this."""
    return answer.status < 400 or (answer.status == 503 and b'"database"' in answer.body)


def _counted(batch: Batch) -> str:
    """How many tasks show which status."""
    return ", ".join(f"{count} {status}" for status, count in batch.status_counts.items() if count)


def _task(id: str) -> str:
    return f"/task/{quote(id, safe='')}"


def _batch(id: str) -> str:
    return f"/batch/{quote(id, safe='')}"
