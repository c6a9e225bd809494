"""A program for the tests of supervision: it dies, but a copy of it keeps open what it had opened."""

from __future__ import annotations

import multiprocessing
import os
import signal

from perdure.worker.parent import watch_parent


def say_so() -> None:
    print("orphaned", flush=True)
    os._exit(0)


def compute() -> None:
    watch_parent(say_so)
    print("computing", flush=True)
    while True:
        pass


if __name__ == "__main__":
    multiprocessing.get_context("spawn").Process(target=compute).start()
    os.fork()
    signal.pause()
