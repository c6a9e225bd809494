"""Tasks for processes of their own, in a module that such a process can import."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from perdure import Final, Perdure, Retry
from perdure.config import Settings

app = Perdure(settings=Settings())


@app.task(process=True)
def square(number: int) -> dict[str, int]:
    return {"square": number * number, "process": os.getpid()}


@app.task(process=True)
def refuse(number: int) -> None:
    raise Final(f"not {number}", code="unwanted")


@app.task(process=True, retry=Retry.fixed("1s", max_retries=1))
def die_once(marker: str) -> str:
    path = Path(marker)
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


@app.task(process=True)
def leave() -> None:
    sys.exit(3)


@app.task(process=True, timeout="10s")
def compute_for_ever(marker: str) -> None:
    Path(marker).write_text(str(os.getpid()))
    while True:
        pass
