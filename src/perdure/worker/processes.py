"""Processes for functions that compute: each runs one at a time, and one that dies takes nothing else with it."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import signal
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from perdure.worker.handlers import Handler
from perdure.worker.outcomes import Raised, raised_from
from perdure.worker.parent import watch_parent

Outcome = str | None | Raised
"""A result as it is stored, or what was raised instead."""


class ProcessLost(Exception):
    """The process that ran the function died."""


class Processes:
    """At most `count` processes; they begin when they are needed, and stay for the next function."""

    def __init__(self, count: int) -> None:
        self._places = asyncio.Semaphore(count)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="process")
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()

    async def run(self, address: str, payload: str | None) -> Outcome:
        """Call the function at `address`; if this is cancelled, its process is ended. Raises ProcessLost."""
        async with self._places:
            process = self._idle.pop() if self._idle else _Process()
            self._busy.add(process)
            try:
                loop = asyncio.get_running_loop()
                outcome: Outcome = await loop.run_in_executor(self._threads, process.ask, address, payload)
            except BaseException:
                process.kill()
                raise
            finally:
                self._busy.discard(process)
            self._idle.append(process)
            return outcome

    def close(self) -> None:
        """End all processes, whatever they do."""
        for process in (*self._idle, *self._busy):
            process.kill()
        self._idle.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Process:
    """One process, which begins with the first question."""

    def __init__(self) -> None:
        # Not forked: a copy of a process with threads and open connections cannot be trusted.
        context = multiprocessing.get_context("spawn")
        self._ours, self._theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(self._theirs,), name="perdure task")
        self._lock = threading.Lock()
        self._started = False
        self._killed = False
        # Whoever forgets to close must be able to end.
        weakref.finalize(self, _kill, self._process)

    def ask(self, address: str, payload: str | None) -> Outcome:
        """Wait for the outcome, in a thread."""
        try:
            self._start()
            self._ours.send((address, payload))
            outcome: Outcome = self._ours.recv()
            return outcome
        except (EOFError, OSError) as error:
            raise ProcessLost(ProcessLost.__doc__) from error

    def _start(self) -> None:
        with self._lock:
            if self._killed:
                raise EOFError
            if not self._started:
                self._process.start()
                self._started = True
                # Its copy is the only one then, so that its death is noticed here.
                self._theirs.close()

    def kill(self) -> None:
        with self._lock:
            self._killed = True
            _kill(self._process)


def _kill(process: Any) -> None:
    if process.is_alive():
        process.kill()


def serve(connection: Connection) -> None:
    """In the other process: answer questions until the asker is gone, and end in the middle of one then."""
    # Its task is begun again elsewhere, and the two should not run side by side.
    watch_parent(partial(os._exit, 1))
    # Signals to the whole group mean the worker, which lets functions finish. (Handlers, because what is ignored
    # would be ignored by programs that a function starts, too.)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    while True:
        try:
            address, payload = connection.recv()
        except EOFError:
            return
        connection.send(_answer(address, payload))


def _answer(address: str, payload: str | None) -> Outcome:
    try:
        handler = _find(address)
        return handler.encode(handler.function(**handler.decode(payload)))
    except BaseException as error:
        return raised_from(error)


def _find(address: str) -> Handler:
    """The handler of the function that stands under `module:name`."""
    module, _, name = address.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not isinstance(getattr(found, "handler", None), Handler):
        raise TypeError(f"{address} is no task in the other process: is it decorated where it is defined?")
    handler: Handler = found.handler
    return handler
