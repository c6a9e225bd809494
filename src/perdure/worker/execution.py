"""Runs one function where it belongs: in the event loop, in a thread, or in a process of its own."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, assert_never

from perdure.worker.context import Canceled, Context
from perdure.worker.handlers import Handler, Mode
from perdure.worker.outcomes import raised_from
from perdure.worker.processes import Outcome, Processes, ProcessLost

log = logging.getLogger("perdure.worker")


class Execution:
    """The threads and processes of a worker; both begin when they are first needed."""

    def __init__(self, threads: int, processes: int) -> None:
        self._thread_count = threads
        self._process_count = processes
        self._threads: ThreadPoolExecutor | None = None
        self._processes: Processes | None = None
        self._lock = threading.Lock()
        self._abandoned = 0

    @property
    def abandoned(self) -> int:
        """Threads whose function goes on although nobody waits for it: places that are taken."""
        return self._abandoned

    async def run(self, handler: Handler, payload: str | None, context: Context) -> Outcome:
        """What the function returns, as it is stored, or what it raises.

        Raises CancelledError or Canceled if the context is canceled, and ProcessLost.
        """
        try:
            return await self._run(handler, payload, context)
        except ProcessLost:
            raise
        except BaseException as error:
            # A function may let a cancellation of its own making out: that is an error like others.
            if context._stopped and isinstance(error, asyncio.CancelledError | Canceled):
                raise
            context.log.debug("the function raised", exc_info=error)
            return raised_from(error)

    async def _run(self, handler: Handler, payload: str | None, context: Context) -> Outcome:
        arguments = handler.decode(payload)
        if handler.context_parameter is not None:
            arguments[handler.context_parameter] = context
        if handler.mode is Mode.LOOP:
            return handler.encode(await handler.function(**arguments))
        if handler.mode is Mode.THREAD:
            return await self._run_in_thread(partial(_call, handler, arguments), context)
        if handler.mode is Mode.PROCESS:
            if self._processes is None:
                self._processes = Processes(self._process_count)
            return await self._processes.run(handler.address, payload)
        assert_never(handler.mode)

    async def _run_in_thread(self, call: Callable[[], Outcome], context: Context) -> Outcome:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._thread_count, thread_name_prefix="task")
        work: Future[Outcome] = self._threads.submit(contextvars.copy_context().run, call)
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            if not work.cancel():
                self._abandon(work, context)
            raise

    def _abandon(self, work: Future[Outcome], context: Context) -> None:
        """Nobody can interrupt a thread: count it until its function comes back."""
        with self._lock:
            self._abandoned += 1
            left = self._thread_count - self._abandoned
        fields = {"task": context.task_id, "kind": context.kind, "attempt": context.attempt, "places_left": left}
        log.log(
            logging.WARNING if left > 0 else logging.ERROR,
            "a function goes on in its thread although nobody waits for it, and keeps its place; functions in threads "
            "must ask ctx.canceled" + ("" if left > 0 else ". No place is left: restart this worker"),
            extra={"fields": fields},
        )
        work.add_done_callback(self._come_back)

    def _come_back(self, _: Future[Outcome]) -> None:
        with self._lock:
            self._abandoned -= 1

    def close(self) -> None:
        """Let go of threads, which nobody can end, and end processes."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        if self._processes is not None:
            self._processes.close()
        self._threads = self._processes = None


def _call(handler: Handler, arguments: dict[str, Any]) -> Outcome:
    try:
        return handler.encode(handler.function(**arguments))
    except (StopIteration, KeyboardInterrupt, SystemExit) as error:
        # What cannot be handed from a thread to a coroutine, or would end more than the function.
        return raised_from(error)
