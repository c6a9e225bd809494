"""Stops a server and removes its folder once the process that started it is gone, however it went.

Run as a script with the server's folder as the argument. Standard input is a pipe of which that process holds
the other end, so the end of input is the end of that process, even if it was killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

SECONDS_TO_STOP = 10.0


def main(folder: Path) -> None:
    sys.stdin.buffer.read()
    stop_server(folder / "data" / "postmaster.pid")
    # The server creates files until it has stopped, so a first attempt may not remove everything.
    for _ in range(3):
        shutil.rmtree(folder, ignore_errors=True)


def stop_server(lock_file: Path) -> None:
    process = read_process(lock_file)
    if process is None:
        return
    signal_process(process, signal.SIGQUIT)
    deadline = time.monotonic() + SECONDS_TO_STOP
    while lock_file.exists():
        if time.monotonic() > deadline:
            signal_process(process, signal.SIGKILL)
            return
        time.sleep(0.02)


def read_process(lock_file: Path) -> int | None:
    """The server's process, or None when it never started or was stopped in an orderly way."""
    try:
        return int(lock_file.read_text().splitlines()[0])
    except (FileNotFoundError, IndexError, ValueError):
        return None


def signal_process(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
