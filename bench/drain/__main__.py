"""`python -m bench.drain`: how fast queued work is drained, beside PgQueuer and a bare asyncpg loop."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.drain.contestants import CONTESTANTS
from bench.drain.environment import prepare_environment
from bench.drain.measured import Measured, Work
from bench.drain.table import Table
from tests.support.postgres import PostgresServer


async def measure(server: PostgresServer, name: str, work: Work) -> Measured:
    """One drain in a new database."""
    contestant = CONTESTANTS[name]
    if contestant.database == "SQLite":
        with tempfile.TemporaryDirectory() as folder:
            return await contestant.drain(f"sqlite:///{Path(folder)}/drain.db", work)
    url = server.create_database()
    try:
        return await contestant.drain(url, work)
    finally:
        server.drop_database(url)


async def main(names: Sequence[str], works: Sequence[Work], rounds: int) -> None:
    table = Table()
    release = prepare_environment() if any(name.startswith("pgqueuer") for name in names) else None
    load_before = os.getloadavg()[0]
    with PostgresServer(durable=True) as server:
        for number in range(rounds):
            # Taken in turns, so that a slow minute of the machine does not fall on one of them alone.
            for work in works:
                for name in names:
                    if work.later and not CONTESTANTS[name].retries:
                        continue
                    print(f"round {number + 1}: {name}, {work.later:,} later", file=sys.stderr)
                    table.add(name, work, await measure(server, name, work))
    for line in table.lines():
        print(line)
    notes = [f"medians of {rounds} rounds", f"load average {load_before:.1f} before and {os.getloadavg()[0]:.1f} after"]
    print("; ".join([*notes, f"PgQueuer {release}"] if release else notes))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=20_000, help="no-op tasks; 0 leaves them out")
    parser.add_argument("--failing", type=int, default=5_000, help="tasks that fail twice; 0 leaves them out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--later", type=int, default=0, help="drain also beside this many tasks scheduled for later")
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    given = parser.parse_args()
    drained = [Work(given.tasks, given.failing)]
    if given.later:
        drained.append(Work(given.tasks, given.failing, given.later))
    asyncio.run(main(given.only, drained, given.rounds))
