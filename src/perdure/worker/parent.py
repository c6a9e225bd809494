"""Noticing that the process that started this one is gone, even when it was killed."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable

CHECK_SECS = 1.0


def watch_parent(act: Callable[[], object]) -> None:
    """Call `act`, in a thread of its own, once the process that started this one has ended, whatever this one does."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        # A program forked by the parent may hold the pipe open for longer: so its number is looked at, too.
        while os.getppid() == parent.pid and parent.is_alive():
            parent.join(CHECK_SECS)
        act()

    threading.Thread(target=watch, name="parent watch", daemon=True).start()
