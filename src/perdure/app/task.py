"""A function that became a kind of task."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, Unpack

from perdure.app.arguments import Arguments, arguments_of
from perdure.app.desk import Desk
from perdure.app.handle import TaskHandle
from perdure.app.options import Definition, TaskOptions, whole_seconds
from perdure.domain.drafts import BatchDraft, TaskDraft
from perdure.domain.errors import Duplicate
from perdure.store.verbs.submit import Submitted
from perdure.worker.context import NoResult
from perdure.worker.handlers import Handler, Mode, Unfit

Result = TypeVar("Result", covariant=True)
_Call = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of one call: by position, and by name."""


class TaskFunction(Generic[Result]):
    """Calling it runs the function here and now, as ever; `submit` hands the call to a worker."""

    def __init__(
        self,
        function: Callable[..., Any],
        kind: str,
        arguments: Arguments,
        handler: Handler,
        options: TaskOptions,
        desk: Desk,
        namespace: str | None,
        connection: Any = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.kind = kind
        self.function = function
        self.handler = handler
        self._arguments = arguments
        self._options = options
        self._desk = desk
        self._namespace = namespace
        self.connection = connection

    def __repr__(self) -> str:
        return f"<task {self.kind}>"

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.function(*given, **named)

    def options(self, *, connection: Any = None, **changes: Unpack[TaskOptions]) -> TaskFunction[Result]:
        """The same task with other options.

        With `connection`, tasks are submitted within the transaction that is open on it, an `asyncpg.Connection` or
        a `sqlite3.Connection` to the same database: they exist if and when it is committed.
        """
        merged: TaskOptions = {**self._options, **changes}
        return TaskFunction(
            self.function,
            self.kind,
            self._arguments,
            self.handler,
            merged,
            self._desk,
            self._namespace,
            self.connection if connection is None else connection,
        )

    async def submit(self, *given: Any, **named: Any) -> TaskHandle[Result]:
        """Submit one call. It is on disk when this returns.

        Raises Invalid if the arguments do not fit, and Duplicate if it repeats a task by its `dedupe_strategy`.
        """
        return self._only_handle(await self._desk.submit(self._batch([(given, named)]), self.connection))

    def submit_blocking(self, *given: Any, **named: Any) -> TaskHandle[Result]:
        """The same for code that is not async."""
        return self._only_handle(self._desk.submit_blocking(self._batch([(given, named)]), self.connection))

    async def submit_many(self, calls: Iterable[Any]) -> list[TaskHandle[Result]]:
        """Submit many calls at once, all or none: the argument of each, or a tuple where there are several.

        Those that repeat a task by their `dedupe_strategy` are left out of the list.
        """
        packed = _packed(calls)
        return self._handles(await self._desk.submit(self._batch(packed), self.connection)) if packed else []

    def submit_many_blocking(self, calls: Iterable[Any]) -> list[TaskHandle[Result]]:
        """The same for code that is not async."""
        packed = _packed(calls)
        return self._handles(self._desk.submit_blocking(self._batch(packed), self.connection)) if packed else []

    def draft(self, given: tuple[Any, ...], named: dict[str, Any], key: str | None = None) -> TaskDraft:
        """One call as a task to hand in; raises Invalid."""
        return Definition(self.kind, self._options).draft(self._arguments.pack(given, named), key)

    @property
    def key(self) -> str | None:
        """The name within a batch, if the options give one."""
        return self._options.get("key")

    def read_result(self, value: Any) -> Result:
        """A stored result as what the function says that it returns; raises NoResult if it is something else."""
        try:
            result: Result = self._arguments.read_result(value)
        except Unfit as error:
            raise NoResult(
                f"a stored result of {self.kind!r} is not what the function returns now: {error}; as it is stored, "
                "it is told by `task()` of the handle, and by `result_of` with the key of the parent"
            ) from error
        return result

    def _batch(self, calls: list[_Call]) -> BatchDraft:
        alone = len(calls) == 1
        drafts = [
            self.draft(given, named, None if alone else f"{self.key or self.kind}-{number}")
            for number, (given, named) in enumerate(calls)
        ]
        return BatchDraft(drafts, namespace=self._namespace)

    def _only_handle(self, submitted: Submitted) -> TaskHandle[Result]:
        if not submitted.tasks:
            raise Duplicate(Duplicate.__doc__)
        (handle,) = self._handles(submitted)
        return handle

    def _handles(self, submitted: Submitted) -> list[TaskHandle[Result]]:
        return [TaskHandle(task.id, submitted.batch_id, self._desk, self.read_result) for task in submitted.tasks]


def _packed(calls: Iterable[Any]) -> list[_Call]:
    return [(call if isinstance(call, tuple) else (call,), {}) for call in calls]


def make_task(
    function: Callable[..., Any],
    kind: str | None,
    process: bool,
    options: TaskOptions,
    desk: Desk,
    namespace: str | None,
) -> TaskFunction[Any]:
    """Read a function and its options; raises TypeError or ValueError for what can never work."""
    arguments = arguments_of(function)
    is_async = inspect.iscoroutinefunction(function)
    if process and (is_async or arguments.context_parameter is not None):
        raise TypeError(
            f"{function.__qualname__} cannot run in a process of its own: that takes a plain function without Context"
        )
    if "timeout" in options:
        whole_seconds(options["timeout"])
    mode = Mode.PROCESS if process else Mode.LOOP if is_async else Mode.THREAD
    name = kind or function.__name__
    handler = Handler(
        name,
        mode,
        function,
        arguments.unpack,
        arguments.pack_result,
        arguments.context_parameter,
        f"{function.__module__}:{function.__qualname__}",
    )
    return TaskFunction(function, name, arguments, handler, options, desk, namespace)
