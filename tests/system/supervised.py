"""A program for the tests of supervision: two processes that say who they are and wait to be stopped, or die."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

from perdure.cli.processes import START_FAILED, run_processes
from perdure.config import Settings
from perdure.telemetry.logs import configure_logging


def wait_for_a_signal(_settings: Settings, _listening: socket.socket | None) -> int:
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    print(f"process {os.getpid()}", flush=True)
    stopped.wait()
    print("stopped", flush=True)
    return 0


def die(_settings: Settings, _listening: socket.socket | None) -> int:
    raise RuntimeError("something unforeseen")


def refuse_later(settings: Settings, listening: socket.socket | None) -> int:
    """Whoever comes after the first two cannot start."""
    for place in ("first", "second"):
        with suppress(FileExistsError):
            Path(place).touch(exist_ok=False)
            return wait_for_a_signal(settings, listening)
    print("it cannot start", flush=True)
    return START_FAILED


BEHAVIOURS = {"wait": wait_for_a_signal, "die": die, "refuse later": refuse_later}

if __name__ == "__main__":
    configure_logging("info", "human")
    sys.exit(run_processes(2, BEHAVIOURS[sys.argv[1]], Settings(), None))
