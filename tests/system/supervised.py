"""A program for the tests of supervision: two processes that say who they are and wait to be stopped."""

from __future__ import annotations

import os
import signal
import socket
import sys

from perdure.cli.processes import run_processes
from perdure.config import Settings


def wait_for_a_signal(_settings: Settings, _listening: socket.socket | None) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    print(f"process {os.getpid()}", flush=True)
    signal.sigwait({signal.SIGTERM})
    print("stopped", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(run_processes(2, wait_for_a_signal, Settings(), None))
