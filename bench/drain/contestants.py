"""Who is measured: each drains the same work from a database of its own, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.drain.environment import PYTHON
from bench.drain.measured import Measured, Rate, Work, measured
from bench.reference import measure_bare_loop

PROGRAMS = Path(__file__).parent
#: How many are taken at a time: what suits tasks that do nothing best. From 500 on PgQueuer drains little faster, but
#: suffers less from jobs for later.
PGQUEUER_BATCH = 2000
PERDURE_BATCH = 1000
#: What an operator who leaves our settings alone has.
USUAL_BATCH = 100


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    database: str
    drain: Callable[[str, Work], Awaitable[Measured]]
    retries: bool = True
    """Whether it can try again, and schedule for later."""
    beside: str = "pgqueuer"
    """The contestant that its rates are compared with."""


async def drain_bare_loop(url: str, work: Work) -> Measured:
    return Measured(Rate(await measure_bare_loop(url, work.tasks)) if work.tasks else None)


async def drain_pgqueuer(url: str, work: Work, batch: int = PGQUEUER_BATCH) -> Measured:
    # -P: the programs' folder is not to be searched for modules.
    return await _run(work, batch, str(PYTHON), "-P", str(PROGRAMS / "pgqueuer_program.py"), url)


async def drain_perdure(url: str, work: Work, batch: int = PERDURE_BATCH) -> Measured:
    return await _run(work, batch, sys.executable, "-m", "bench.drain.perdure_program", url)


async def _run(work: Work, batch: int, *command: str) -> Measured:
    """Run a program that prints, as JSON, the seconds of both drains: by the clock and of its processor."""
    numbers = (str(work.tasks), str(work.failing), str(work.later), str(batch))
    process = await asyncio.create_subprocess_exec(*command, *numbers, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{Path(command[-2]).name} ended with {process.returncode}.")
    return measured(work, json.loads(output))


CONTESTANTS = {
    "bare": Contestant("bare asyncpg loop", "PostgreSQL", drain_bare_loop, retries=False),
    "pgqueuer": Contestant("PgQueuer", "PostgreSQL", drain_pgqueuer),
    "postgresql": Contestant("Perdure", "PostgreSQL", drain_perdure),
    "sqlite": Contestant("Perdure", "SQLite", drain_perdure),
    "pgqueuer-100": Contestant(
        "PgQueuer by 100", "PostgreSQL", partial(drain_pgqueuer, batch=USUAL_BATCH), beside="pgqueuer-100"
    ),
    "postgresql-100": Contestant(
        "Perdure by 100", "PostgreSQL", partial(drain_perdure, batch=USUAL_BATCH), beside="pgqueuer-100"
    ),
}
