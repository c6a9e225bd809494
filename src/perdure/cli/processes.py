"""Several processes on one host: they share the listening socket and the database, nothing else."""

from __future__ import annotations

import logging
import multiprocessing
import os
import secrets
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType

from perdure.clock import monotonic
from perdure.config import Settings
from perdure.worker.parent import watch_parent

log = logging.getLogger("perdure")

FAILED = 1
#: A process could not start and has said why. No other one, because a task can end its process with any usual code.
START_FAILED = 78
#: Whoever lived that long did not die of its start.
SETTLED_SECS = 60.0
FIRST_PAUSE_SECS = 0.5
LONGEST_PAUSE_SECS = 30.0

Target = Callable[[Settings, socket.socket | None], int]


def run_processes(count: int, target: Target, settings: Settings, listening: socket.socket | None) -> int:
    """Keep `count` processes running until a signal says stop; a dead one is replaced. A single one is this one.

    Returns the exit code of the command.
    """
    code = target(settings, listening) if count == 1 else _Crew(count, target, settings, listening).run()
    return FAILED if code == START_FAILED else code


def pause_secs(deaths: int) -> float:
    """How long a place stays empty after so many deaths, each soon after the one before: at first not at all."""
    return 0.0 if deaths <= 1 else min(FIRST_PAUSE_SECS * 2.0 ** min(deaths - 2, 20), LONGEST_PAUSE_SECS)


@dataclass(slots=True)
class _Place:
    """Where one process runs, and another one after it."""

    process: BaseProcess | None = None
    launches: int = 0
    launched_at: float = 0.0
    deaths: int = 0
    free_at: float = 0.0


class _Crew:
    """The processes, and what becomes of them."""

    def __init__(self, count: int, target: Target, settings: Settings, listening: socket.socket | None) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._target = target
        self._settings = settings
        self._listening = listening
        self._places = [_Place() for _ in range(count)]
        self._stopping = False
        self._code = 0

    def run(self) -> int:
        """Until all have ended after a signal, or one of the first could not start."""
        signaled, signal_came = os.pipe()

        def stop(_number: int, _frame: FrameType | None) -> None:
            self._stopping = True
            # Nothing else would end a wait in which no process runs.
            os.write(signal_came, b".")

        # Before the first launch, so that a signal in between leaves no process behind.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        while True:
            self._launch_due()
            running = self._running()
            if self._stopping and not running:
                return self._code
            ready = wait([signaled, *(process.sentinel for process in running)], self._patience())
            if signaled in ready:
                os.read(signaled, 1)
                self._terminate()
            for place in self._places:
                if place.process is not None and not place.process.is_alive():
                    self._replace(place, place.process.exitcode)

    def _running(self) -> list[BaseProcess]:
        return [place.process for place in self._places if place.process is not None]

    def _launch_due(self) -> None:
        for place in self._places:
            if self._stopping:
                return
            if place.process is None and place.free_at <= monotonic():
                settings = _with_own_name(self._settings)
                process = self._context.Process(target=_run, args=(self._target, settings, self._listening))
                process.start()
                place.process = process
                place.launches += 1
                place.launched_at = monotonic()

    def _patience(self) -> float | None:
        """Until the next launch, if one is to come."""
        moments = [place.free_at for place in self._places if place.process is None]
        return max(min(moments) - monotonic(), 0.0) if moments and not self._stopping else None

    def _replace(self, place: _Place, code: int | None) -> None:
        place.process = None
        if self._stopping:
            return
        if code == START_FAILED and place.launches == 1:
            # It said why; the others would fail in the same way.
            self._code = START_FAILED
            self._stopping = True
            self._terminate()
            return
        now = monotonic()
        place.deaths = 1 if now - place.launched_at >= SETTLED_SECS else place.deaths + 1
        pause = pause_secs(place.deaths)
        place.free_at = now + pause
        log.error("a process died; starting another", extra={"fields": {"exit_code": code, "pause_secs": pause}})

    def _terminate(self) -> None:
        for process in self._running():
            process.terminate()


def _with_own_name(settings: Settings) -> Settings:
    """A configured instance id names the host; each process adds its own part, new at every start."""
    if settings.server.instance_id is None:
        return settings
    name = f"{settings.server.instance_id}-{secrets.token_hex(4)}"
    return replace(settings, server=replace(settings.server, instance_id=name))


def _run(target: Target, settings: Settings, listening: socket.socket | None) -> None:
    watch_parent(_stop_alone)
    raise SystemExit(target(settings, listening))


def _stop_alone() -> None:
    """Nobody is left to replace or stop this process, and whoever starts the command again does not count on it."""
    log.error("the process that started this one is gone; stopping")
    os.kill(os.getpid(), signal.SIGTERM)
