"""`Perdure`: one database, the kinds of tasks that this program knows, and workers for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack, cast, overload

from perdure.app.batch import Batch
from perdure.app.desk import Desk
from perdure.app.options import TaskOptions
from perdure.app.policy import Retry
from perdure.app.task import TaskFunction, make_task
from perdure.assemble import Instance, make_instance, make_store
from perdure.clock import Clock
from perdure.config import Settings, load
from perdure.worker import DEFAULT_CONCURRENCY, DEFAULT_PROCESSES
from perdure.worker.worker import Worker

Result = TypeVar("Result")


class Perdure:
    """The tasks of a program.

        app = Perdure("sqlite:///jobs.db")  # or postgresql://…, or what DATABASE_URL or the configuration says

        @app.task(retry=Retry.exponential("1s", max_retries=5))
        async def greet(name: str) -> str: ...

        await greet.submit("world")

    All that it submits belongs to `namespace`. `config` names a configuration file, and `settings` are used instead
    of any.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        namespace: str | None = None,
        config: Path | str | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._database_url = database_url
        self._namespace = namespace
        self._config = None if config is None else Path(config)
        self._settings = settings
        self._tasks: dict[str, TaskFunction[Any]] = {}
        self._desk = Desk(self.settings)

    @property
    def kinds(self) -> Mapping[str, TaskFunction[Any]]:
        """The functions of this program by kind."""
        return self._tasks

    def settings(self, flags: Mapping[str, object] | None = None, config: Path | None = None) -> Settings:
        """The configuration that is in force here; `flags` such as `server.database_url` go before everything else."""
        if self._settings is not None:
            return self._settings
        given = {name: value for name, value in (flags or {}).items() if value is not None}
        if self._database_url is not None:
            given.setdefault("server.database_url", self._database_url)
        return load(given, path=config or self._config)

    @overload
    def task(self, function: Callable[..., Awaitable[Result]], /) -> TaskFunction[Result]: ...
    @overload
    def task(self, function: Callable[..., Result], /) -> TaskFunction[Result]: ...
    @overload
    def task(self, *, kind: str | None = None, process: bool = False, **options: Unpack[TaskOptions]) -> _Decorator: ...
    def task(self, *functions: Any, **options: Any) -> Any:
        """Make a function a kind of task, named like the function unless `kind` says otherwise.

        Async functions run in the worker's event loop, plain ones in threads, with `process=True` in processes of
        their own. Options are those of a task in the HTTP API: `retry`, `timeout`, `priority`, …
        """

        kind, process = options.pop("kind", None), options.pop("process", False)

        def register(function: Callable[..., Any]) -> TaskFunction[Any]:
            made = make_task(function, kind, process, cast(TaskOptions, options), self._desk, self._namespace)
            if made.kind in self._tasks:
                raise ValueError(f"there are two tasks of the kind {made.kind!r}; give one another name by kind=…")
            self._tasks[made.kind] = made
            return made

        return register(*functions) if functions else register

    def batch(
        self,
        name: str | None = None,
        *,
        context: Any = None,
        retry: Retry | Mapping[str, Any] | str | None = None,
        connection: Any = None,
    ) -> Batch:
        """A DAG: add tasks within `with app.batch(…) as batch:` or `async with`; it is submitted at the end.

        With `connection`, within the transaction that is open on it, as by `TaskFunction.options`.
        """
        return Batch(self._desk, name, self._namespace, context, retry, connection)

    def make_worker(
        self,
        settings: Settings | None = None,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        cpu_processes: int = DEFAULT_PROCESSES,
        clock: Clock | None = None,
    ) -> tuple[Instance, Worker]:
        """A worker and what it stands on, neither opened nor started."""
        settings = settings or self.settings()
        instance = make_instance(settings, settings.callback_url(), clock=clock)
        handlers = {kind: task.handler for kind, task in self._tasks.items()}
        few = replace(settings, engine=replace(settings.engine, database_pool_size=2))
        pulse_store = make_store(few, instance.id, instance.store.clock)
        return instance, Worker(instance.engine, handlers, settings, concurrency, cpu_processes, pulse_store)

    @asynccontextmanager
    async def worker(
        self, *, concurrency: int = DEFAULT_CONCURRENCY, cpu_processes: int = DEFAULT_PROCESSES
    ) -> AsyncIterator[Worker]:
        """A worker in this event loop, for as long as the `async with` block lasts."""
        instance, worker = self.make_worker(concurrency=concurrency, cpu_processes=cpu_processes)
        await instance.store.open()
        try:
            await worker.start()
            try:
                yield worker
            finally:
                await worker.stop()
        finally:
            await instance.store.close()

    def close(self) -> None:
        """Let go of the database; what was submitted stays."""
        self._desk.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()


class _Decorator:
    """The type of `@app.task(…)`."""

    @overload
    def __call__(self, function: Callable[..., Awaitable[Result]], /) -> TaskFunction[Result]: ...
    @overload
    def __call__(self, function: Callable[..., Result], /) -> TaskFunction[Result]: ...
    def __call__(self, function: Any, /) -> Any: ...
