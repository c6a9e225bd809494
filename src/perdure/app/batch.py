"""A DAG put together in Python."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from perdure.app.desk import Desk
from perdure.app.handle import FIRST_PAUSE_SECS, LONGEST_PAUSE_SECS, TaskHandle
from perdure.app.policy import Retry
from perdure.app.task import TaskFunction
from perdure.domain.drafts import BatchDraft, DependencyDraft, TaskDraft
from perdure.domain.errors import Duplicate
from perdure.store.verbs.submit import Submitted

CONDITIONS = {"success": "on_success", "failure": "on_failure", "always": "always"}


class Node:
    """A task of a batch; once the batch is submitted, `handle` leads to it."""

    def __init__(self, draft: TaskDraft, function: TaskFunction[Any] | None) -> None:
        self.draft = draft
        self.function = function
        self._handle: TaskHandle[Any] | None = None
        self._handed_in = False

    @property
    def key(self) -> str:
        """The name of the task within the batch."""
        return self.draft.id

    @property
    def handle(self) -> TaskHandle[Any]:
        """The submitted task; raises RuntimeError until the batch is submitted, and Duplicate if it repeats a task."""
        if self._handle is not None:
            return self._handle
        if self._handed_in:
            raise Duplicate(Duplicate.__doc__)
        raise RuntimeError(f"the task {self.key!r} is not submitted yet")


After = Node | tuple[Node, str] | Sequence[Node | tuple[Node, str]]


class Batch:
    """Collects tasks, and submits them all, or none, when the `with` or `async with` block ends without an error."""

    def __init__(
        self,
        desk: Desk,
        name: str | None,
        namespace: str | None,
        context: Any,
        retry: Retry | Mapping[str, Any] | str | None,
        connection: Any = None,
    ) -> None:
        self._desk = desk
        self._connection = connection
        self._draft = BatchDraft([], name, namespace, context, _policy(retry))
        self._nodes: dict[str, Node] = {}
        self._id: str | None = None

    @property
    def id(self) -> str:
        """The id of the batch; raises RuntimeError until it is submitted."""
        if self._id is None:
            raise RuntimeError("the batch is not submitted yet, or nothing was created: every task repeats another one")
        return self._id

    def add(
        self,
        function: TaskFunction[Any],
        *given: Any,
        after: After = (),
        on: str = "success",
        **named: Any,
    ) -> Node:
        """A call of `function`, once what stands in `after` has ended as `on` says: success, failure or always.

        Of several, each may have a condition of its own: `after=[paid, (checked, "always")]`.
        """
        if function.connection is not None:
            raise ValueError("a batch is committed as a whole: give the connection to app.batch(…, connection=…)")
        key = function.key or self._free_key(function.kind)
        return self._take(Node(function.draft(given, named, key), function), after, on)

    def add_task(self, definition: Mapping[str, Any], *, after: After = (), on: str = "success") -> Node:
        """A task written as in the HTTP API: for webhooks, and for workers elsewhere."""
        members = {"name": definition.get("kind"), **definition}
        members.setdefault("id", self._free_key(str(members.get("kind"))))
        return self._take(Node(msgspec.convert(members, TaskDraft), None), after, on)

    def _take(self, node: Node, after: After, on: str) -> Node:
        if node.key in self._nodes:
            raise ValueError(f"there are two tasks with the key {node.key!r}; give one another key by .options(key=…)")
        parents = [after] if isinstance(after, Node) or _is_pair(after) else list(after)
        for parent in parents:
            one, condition = parent if isinstance(parent, tuple) else (parent, on)
            if condition not in CONDITIONS:
                raise ValueError(f"on must be success, failure or always, not {condition!r}")
            node.draft.dependencies = [
                *(node.draft.dependencies or []),
                DependencyDraft(one.key, condition=CONDITIONS[condition]),
            ]
        self._nodes[node.key] = node
        self._draft.tasks.append(node.draft)
        return node

    def _free_key(self, kind: str) -> str:
        key, number = kind, 1
        while key in self._nodes:
            number += 1
            key = f"{kind}-{number}"
        return key

    async def submit(self) -> Self:
        """Submit what was added so far; the end of an `async with` block does it."""
        self._submitted(await self._desk.submit(self._draft, self._connection))
        return self

    def submit_blocking(self) -> Self:
        """The same for code that is not async; the end of a `with` block does it."""
        self._submitted(self._desk.submit_blocking(self._draft, self._connection))
        return self

    def _submitted(self, submitted: Submitted) -> None:
        # Without any task there is no batch either.
        self._id = submitted.batch_id if submitted.tasks else None
        for node in self._nodes.values():
            node._handed_in = True
        for task in submitted.tasks:
            node = self._nodes[task.key]
            read = node.function.read_result if node.function is not None else _as_it_is
            node._handle = TaskHandle(task.id, submitted.batch_id, self._desk, read)

    async def wait(self, timeout: float | None = None) -> None:
        """Wait until every task is over; raises TimeoutError if that takes longer than `timeout` seconds."""
        pause = FIRST_PAUSE_SECS
        async with asyncio.timeout(timeout):
            while await self._desk.live_tasks(self.id):
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, LONGEST_PAUSE_SECS)

    def wait_blocking(self, timeout: float | None = None) -> None:
        """The same for code that is not async."""
        self._desk.run(self.wait(timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if kind is None:
            self.submit_blocking()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if kind is None:
            await self.submit()


def _policy(retry: Retry | Mapping[str, Any] | str | None) -> dict[str, Any] | str | None:
    if isinstance(retry, Retry):
        return retry.members
    return dict(retry) if isinstance(retry, Mapping) else retry


def _is_pair(after: Any) -> bool:
    return isinstance(after, tuple) and len(after) == 2 and isinstance(after[1], str)


def _as_it_is(value: Any) -> Any:
    return value
