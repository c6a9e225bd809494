"""`python -m bench`: what the design costs, beside a bare asyncpg loop on the same machine in the same run."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

from bench.reference import measure_bare_loop
from bench.store import measure_store
from bench.submit import measure_submissions
from tests.support.postgres import PostgresServer

BARE = "bare asyncpg loop: claim 100, finish 100"


async def measure_round(server: PostgresServer, folder: Path, tasks: int, number: int) -> dict[tuple[str, str], float]:
    rates: dict[tuple[str, str], float] = {}
    bare_url = server.create_database()
    rates[BARE, "PostgreSQL"] = await measure_bare_loop(bare_url, tasks)
    server.drop_database(bare_url)
    for name in ("PostgreSQL", "SQLite"):
        urls = [
            server.create_database() if name == "PostgreSQL" else f"sqlite:///{folder}/{number}-{part}.db"
            for part in ("store", "submit")
        ]
        (
            rates["submit to the store, 5,000 a batch", name],
            rates["claim and finish, 100 a transaction", name],
        ) = await measure_store(urls[0], tasks)
        rates["HTTP, one by one from 64 clients", name], rates["HTTP, 1,000 a batch", name] = await measure_submissions(
            urls[1], single=tasks // 5, batches=tasks // 1000
        )
        if name == "PostgreSQL":
            for url in urls:
                server.drop_database(url)
    return rates


async def main(tasks: int, rounds: int) -> None:
    measured: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    with PostgresServer(durable=True) as server, tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for key, rate in (await measure_round(server, Path(folder), tasks, number)).items():
                measured[key].append(rate)
    reference = statistics.median(measured[BARE, "PostgreSQL"])
    print(f"{'what':46} {'database':12} {'tasks/s':>9}  ratio to the bare loop")
    for (what, database), rates in measured.items():
        rate = statistics.median(rates)
        print(f"{what:46} {database:12} {rate:9,.0f}  {rate / reference:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=20_000, help="in steps of 5,000")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    asyncio.run(main(max(1, round(arguments.tasks / 5000)) * 5000, arguments.rounds))
