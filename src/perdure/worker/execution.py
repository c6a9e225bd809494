"""Runs one function where it belongs: in the event loop, in a thread, or in a process of its own."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import multiprocessing
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any, assert_never

from perdure.worker.context import Context
from perdure.worker.handlers import Handler, Mode


class ProcessLost(Exception):
    """The process that ran the function died."""


class Execution:
    """The threads and processes of a worker; both begin when they are first needed."""

    def __init__(self, threads: int, processes: int) -> None:
        self._thread_count = threads
        self._process_count = processes
        self._threads: ThreadPoolExecutor | None = None
        self._processes: ProcessPoolExecutor | None = None

    async def run(self, handler: Handler, payload: str | None, context: Context) -> Any:
        """What the function returns; raises what it raises."""
        if handler.mode is Mode.PROCESS:
            return await self._run_in_process(handler, payload)
        arguments = handler.decode(payload)
        if handler.context_parameter is not None:
            arguments[handler.context_parameter] = context
        if handler.mode is Mode.LOOP:
            return await handler.function(**arguments)
        if handler.mode is Mode.THREAD:
            return await self._run_in_thread(partial(handler.function, **arguments))
        assert_never(handler.mode)

    async def _run_in_thread(self, call: partial[Any]) -> Any:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._thread_count, thread_name_prefix="task")
        run = partial(contextvars.copy_context().run, call)
        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    async def _run_in_process(self, handler: Handler, payload: str | None) -> Any:
        handler.decode(payload)
        if self._processes is None:
            # Not forked: a copy of a process with threads and open connections cannot be trusted.
            context = multiprocessing.get_context("spawn")
            self._processes = ProcessPoolExecutor(self._process_count, mp_context=context)
        processes = self._processes
        try:
            work = processes.submit(run_by_address, handler.address, payload)
            return await asyncio.wrap_future(work)
        except BrokenExecutor as error:
            if self._processes is processes:
                self._processes = None
            raise ProcessLost(ProcessLost.__doc__) from error

    def close(self) -> None:
        """Let go of threads and processes; what still runs in them is not waited for."""
        for executor in (self._threads, self._processes):
            if executor is not None:
                executor.shutdown(wait=False, cancel_futures=True)
        self._threads = self._processes = None


def run_by_address(address: str, payload: str | None) -> Any:
    """In the other process: find the function by its `module:name` and call it."""
    module, _, name = address.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    handler: Handler = found.handler
    return handler.function(**handler.decode(payload))
