"""Several processes on one host: they share the listening socket and the database, nothing else."""

from __future__ import annotations

import logging
import multiprocessing
import secrets
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType

from perdure.config import Settings

log = logging.getLogger("perdure")

START_FAILED = 1
Target = Callable[[Settings, socket.socket | None], int]


def run_processes(count: int, target: Target, settings: Settings, listening: socket.socket | None) -> int:
    """Keep `count` processes running until a signal says stop; a dead one is replaced."""
    context = multiprocessing.get_context("spawn")
    stopping = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        for process in running:
            process.terminate()

    def launch() -> BaseProcess:
        process = context.Process(target=_run, args=(target, _with_own_name(settings), listening))
        process.start()
        return process

    running: list[BaseProcess] = []
    # Before the first launch, so that a signal in between leaves no process behind.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    while len(running) < count and not stopping:
        running.append(launch())
    if stopping:
        stop(signal.SIGTERM, None)
    code = 0
    while running:
        wait([process.sentinel for process in running])
        ended = [process for process in running if not process.is_alive()]
        for process in ended:
            running.remove(process)
            if stopping:
                continue
            if process.exitcode == START_FAILED:
                # It said why; the others would fail in the same way.
                code = START_FAILED
                stop(signal.SIGTERM, None)
            else:
                log.error("a process died; starting another", extra={"fields": {"exit_code": process.exitcode}})
                running.append(launch())
    return code


def _with_own_name(settings: Settings) -> Settings:
    """A configured instance id names the host; each process adds its own part, new at every start."""
    if settings.server.instance_id is None:
        return settings
    name = f"{settings.server.instance_id}-{secrets.token_hex(4)}"
    return replace(settings, server=replace(settings.server, instance_id=name))


def _run(target: Target, settings: Settings, listening: socket.socket | None) -> None:
    raise SystemExit(target(settings, listening))
