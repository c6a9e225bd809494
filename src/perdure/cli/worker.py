"""`perdure worker`: runs the functions of a program."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import socket
import sys
import threading
from functools import partial
from pathlib import Path

from perdure import __version__
from perdure.app.application import Perdure
from perdure.cli.processes import START_FAILED, run_processes
from perdure.cli.serving import event_loop
from perdure.config import Settings
from perdure.config.problems import mask_password
from perdure.domain.errors import PerdureError
from perdure.telemetry.logs import configure_logging

log = logging.getLogger("perdure")


class NoSuchApp(Exception):
    """The program cannot be imported, or has no such `Perdure` in it; the message says what to do."""


def find_app(reference: str) -> Perdure:
    """The `Perdure` of `module:name`; the current folder is searched first, as with `python -m`."""
    module_name, colon, name = reference.partition(":")
    if not module_name or not colon or not name:
        raise NoSuchApp(f"{reference!r} is not understood; write module:name, for example shop.tasks:app")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise NoSuchApp(f"There is no module {module_name!r} here ({folder}) or among the installed ones.") from error
    found = getattr(module, name, None)
    if not isinstance(found, Perdure):
        known = [key for key, value in vars(module).items() if isinstance(value, Perdure)]
        hint = f"; there is {', '.join(known)}" if known else ""
        raise NoSuchApp(f"{name!r} in {module_name} is no Perdure application{hint}.")
    if not found.kinds:
        raise NoSuchApp(f"{reference} knows no tasks: decorate functions with @{name}.task.")
    return found


def work_forever(reference: str, settings: Settings, concurrency: int, cpu_processes: int, processes: int) -> int:
    """Run until a signal says stop; the exit code."""
    configure_logging(settings.log.level, settings.log.format)
    return run_processes(processes, partial(run_worker, reference, concurrency, cpu_processes), settings, None)


def run_worker(
    reference: str, concurrency: int, cpu_processes: int, settings: Settings, _listening: socket.socket | None
) -> int:
    """One process; returns its exit code, START_FAILED where it has said why."""
    configure_logging(settings.log.level, settings.log.format)
    try:
        app = find_app(reference)
        with asyncio.Runner(loop_factory=event_loop()) as runner:
            runner.run(_run(app, reference, settings, concurrency, cpu_processes))
    except (NoSuchApp, PerdureError) as error:
        print(f"perdure cannot start: {error}", file=sys.stderr)
        return START_FAILED
    _leave_threads_behind()
    return 0


async def _run(app: Perdure, reference: str, settings: Settings, concurrency: int, cpu_processes: int) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    instance, worker = app.make_worker(settings, concurrency=concurrency, cpu_processes=cpu_processes)
    await instance.store.open()
    await worker.start()
    lines = [
        f"perdure {__version__}",
        f"  working     {', '.join(sorted(app.kinds))}   ({reference}, up to {concurrency} at a time)",
        f"  database    {mask_password(settings.server.database_url)}",
        f"  instance    {instance.id}",
    ]
    print("\n".join(lines), file=sys.stderr, flush=True)
    await stopping.wait()
    log.info("stopping: no new tasks; finishing what is under way", extra={"fields": {"tasks": len(worker.held)}})
    await worker.stop()
    await instance.store.close()
    log.info("stopped; every result is on disk")


def _leave_threads_behind() -> None:
    """A function in a thread that did not heed its cancellation was given back; it must not keep the process alive."""
    if any(thread.name.startswith("task") for thread in threading.enumerate()):
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
