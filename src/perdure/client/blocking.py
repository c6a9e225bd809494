"""The client for plain code: the operations of `AsyncClient`, run to their end on the spot."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Self, TypeVar

from perdure.client.address import server_url
from perdure.client.asynchronous import AsyncClient, Words
from perdure.client.blocking_transport import BlockingTransport
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

Result = TypeVar("Result")


class Client:
    """Talks to a server without async.

        with Client("http://127.0.0.1:8000") as client:
            submitted = client.submit({"id": "a", "name": "A", "kind": "etl"})

    May be shared by threads, and used inside a running event loop.
    """

    def __init__(
        self, url: str | None = None, *, token: str | None = None, timeout: float = 30, retries: int = 5
    ) -> None:
        """The arguments are those of `AsyncClient`."""
        transport = BlockingTransport(server_url(url), timeout)
        self._core = AsyncClient(token=token, retries=retries, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._run(self._core.close())

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Its transport never suspends, so one step is the whole way."""
        try:
            work.send(None)
        except StopIteration as finished:
            result: Result = finished.value
            return result
        work.close()
        raise RuntimeError("an operation waited for something other than its transport")

    def _each(self, entries: AsyncIterator[Result]) -> Iterator[Result]:
        while True:
            try:
                yield self._run(entries.__anext__())  # type: ignore[arg-type]  # of an async generator it is a coroutine
            except StopAsyncIteration:
                return

    def submit(
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
        return self._run(
            self._core.submit(
                tasks, name=name, namespace=namespace, context=context, retry=retry, idempotency_key=idempotency_key
            )
        )

    def task(self, id: str) -> Task:
        """Everything about a task."""
        return self._run(self._core.task(id))

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
    ) -> Iterator[ShortTask]:
        """Every task that is like this, the newest first, fetched page by page; at most `limit`."""
        return self._each(
            self._core.tasks(
                status=status,
                kind=kind,
                name=name,
                namespace=namespace,
                batch_id=batch_id,
                timeout=timeout,
                metadata=metadata,
                error_class=error_class,
                due_before=due_before,
                limit=limit,
            )
        )

    def attempts(self, id: str) -> list[Attempt]:
        """Every execution of a task that is over, oldest first."""
        return self._run(self._core.attempts(id))

    def deliveries(self, id: str) -> list[Delivery]:
        """The webhooks of a task."""
        return self._run(self._core.deliveries(id))

    def events(self, id: str) -> list[Event]:
        """Every change of a task's status."""
        return self._run(self._core.events(id))

    def cancel(self, id: str) -> Task:
        """End a task, whatever it does; raises ConflictError if it is over already."""
        return self._run(self._core.cancel(id))

    def pause(self, id: str) -> Task:
        """Hold a task back until it is resumed."""
        return self._run(self._core.pause(id))

    def resume(self, id: str) -> Task:
        """Let a paused task go on."""
        return self._run(self._core.resume(id))

    def retry(self, id: str, **edits: Any) -> Task:
        """Try a task again now; `payload`, `metadata`, `timeout`, `on_start` and `retry` change it first."""
        return self._run(self._core.retry(id, **edits))

    def report(self, id: str, *, attempt: int | None = None, status: str | None = None, **members: Any) -> Task:
        """Report about a task, as receivers of webhooks do: progress, or with `status` its end."""
        return self._run(self._core.report(id, attempt=attempt, status=status, **members))

    def count(self, id: str, *, new_success: int = 0, new_failures: int = 0) -> None:
        """Add to a task's counters soon."""
        self._run(self._core.count(id, new_success=new_success, new_failures=new_failures))

    def redrive(self, delivery_id: str) -> Delivery:
        """Send an end or cancel webhook once more."""
        return self._run(self._core.redrive(delivery_id))

    def batch(self, id: str) -> Batch:
        """A batch with the counts of its tasks."""
        return self._run(self._core.batch(id))

    def batches(
        self,
        *,
        kind: str | None = None,
        name: str | None = None,
        status: Words | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        limit: int | None = None,
    ) -> Iterator[BatchSummary]:
        """Every batch that is like this, the newest first."""
        return self._each(
            self._core.batches(
                kind=kind,
                name=name,
                status=status,
                created_after=created_after,
                created_before=created_before,
                limit=limit,
            )
        )

    def dag(self, batch_id: str) -> Dag:
        """The tasks of a batch and what they wait for."""
        return self._run(self._core.dag(batch_id))

    def stop_batch(self, id: str) -> Stopped:
        """Cancel every live task of a batch; may be repeated."""
        return self._run(self._core.stop_batch(id))

    def retry_batch(self, id: str) -> dict[str, Any]:
        """Try everything again that failed in a batch."""
        return self._run(self._core.retry_batch(id))

    def change_rules(self, id: str, kind: str, rules: Sequence[Mapping[str, Any]]) -> int:
        """Replace the rules of a batch's live tasks of one kind; returns how many there were."""
        return self._run(self._core.change_rules(id, kind, rules))

    def wait(self, id: str, *, timeout: float | None = None) -> Task:
        """The task once it is over; raises TimedOut after `timeout` seconds."""
        return self._run(self._core.wait(id, timeout=timeout))

    def wait_batch(self, id: str, *, timeout: float | None = None) -> Batch:
        """The batch once all of its tasks are over; raises TimedOut after `timeout` seconds."""
        return self._run(self._core.wait_batch(id, timeout=timeout))

    def watch(self, batch_id: str, *, timeout: float | None = None) -> Iterator[Batch]:
        """The batch now, and again after each change, until all of its tasks are over."""
        return self._each(self._core.watch(batch_id, timeout=timeout))

    def retries(
        self,
        *,
        status: Words | None = None,
        due_before: datetime | None = None,
        kind: str | None = None,
        limit: int | None = None,
    ) -> Iterator[RetrySchedule]:
        """Tasks and batches that failed and have a policy, by the moment of their next try."""
        return self._each(self._core.retries(status=status, due_before=due_before, kind=kind, limit=limit))

    def retry_stats(self) -> RetryStats:
        """How many retries wait, and how they went."""
        return self._run(self._core.retry_stats())

    def preview(self, policy: Mapping[str, Any] | str) -> Preview:
        """What a retry policy would do."""
        return self._run(self._core.preview(policy))

    def pauses(self) -> list[Pause]:
        """Kinds and namespaces whose tasks are held back."""
        return self._run(self._core.pauses())

    def pause_kind(self, kind: str) -> None:
        """Start no tasks of this kind until it is resumed."""
        self._run(self._core.pause_kind(kind))

    def resume_kind(self, kind: str) -> None:
        """Let tasks of a paused kind start again."""
        self._run(self._core.resume_kind(kind))

    def pause_namespace(self, namespace: str) -> None:
        """Start no tasks of this namespace until it is resumed."""
        self._run(self._core.pause_namespace(namespace))

    def resume_namespace(self, namespace: str) -> None:
        """Let tasks of a paused namespace start again."""
        self._run(self._core.resume_namespace(namespace))

    def health(self) -> Health:
        """Whether the server and its database work."""
        return self._run(self._core.health())
