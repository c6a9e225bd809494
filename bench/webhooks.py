"""`python -m bench.webhooks`: webhooks a second, beside a bare aiohttp loop to the same receiver in the same run.

The engine is whole: loops, leases, ledger, attempts and events, on a database that commits durably. Every task is
done when its answer is recorded. The bare loop posts the same bodies, and remembers nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import aiohttp
import msgspec
import uvloop

from bench.receiver import receiving
from perdure.assemble import make_instance
from perdure.cli.serving import share_interpreter
from perdure.config import Settings, load
from perdure.domain.drafts import ActionDraft, BatchDraft, TaskDraft, WebhookDraft
from perdure.domain.states import Status
from perdure.store.changes import Changes
from tests.support.postgres import PostgresServer

SUBMIT_CHUNK = 5000
LONGEST_WAIT_SECS = 300.0
BODY = {"order": 7, "note": "x" * 150}
BARE = "bare aiohttp loop"


def settings_for(url: str, concurrency: int) -> Settings:
    flags: dict[str, object] = {
        "server.database_url": url,
        "webhooks.concurrency": concurrency,
        # There is one destination here: it may have all places.
        "webhooks.per_destination": concurrency,
    }
    return load(flags, environ={})


def calls_to(receiver: str, count: int) -> BatchDraft:
    on_start = ActionDraft(WebhookDraft(receiver, "Post", body=BODY))
    return BatchDraft(
        [TaskDraft(f"t{number}", "bench", "bench", on_start=on_start, completion="response") for number in range(count)]
    )


class Done:
    """Counts tasks that ended well, as they are committed."""

    def __init__(self, wanted: int) -> None:
        self._left = wanted
        self.all = asyncio.Event()

    def count(self, changes: Changes) -> None:
        self._left -= sum(moved.target is Status.SUCCESS for moved in changes.moved)
        if self._left <= 0:
            self.all.set()


async def measure_engine(url: str, receiver: str, tasks: int, concurrency: int) -> float:
    """Webhook tasks ended per second, all of them submitted before."""
    settings = settings_for(url, concurrency)
    # As `perdure serve` does.
    share_interpreter(settings)
    instance = make_instance(settings, "http://127.0.0.1:8000")
    done = Done(tasks)
    instance.store.on_commit(done.count)
    await instance.store.open()
    try:
        for first in range(0, tasks, SUBMIT_CHUNK):
            await instance.engine.commands.submit(calls_to(receiver, min(SUBMIT_CHUNK, tasks - first)))
        began = time.perf_counter()
        await instance.engine.start()
        await asyncio.wait_for(done.all.wait(), LONGEST_WAIT_SECS)
        return tasks / (time.perf_counter() - began)
    finally:
        await instance.engine.stop()
        await instance.store.close()


async def measure_bare_loop(receiver: str, tasks: int, concurrency: int) -> float:
    """Requests answered per second."""
    body = msgspec.json.encode(BODY)
    left = iter(range(tasks))

    async def post(session: aiohttp.ClientSession) -> None:
        for _ in left:
            async with session.post(receiver, data=body, headers={"Content-Type": "application/json"}) as answer:
                await answer.read()
                answer.raise_for_status()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as session:
        began = time.perf_counter()
        await asyncio.gather(*[post(session) for _ in range(concurrency)])
        return tasks / (time.perf_counter() - began)


async def main(tasks: int, rounds: int, concurrency: int) -> None:
    measured: defaultdict[str, list[float]] = defaultdict(list)
    with PostgresServer(durable=True) as server, tempfile.TemporaryDirectory() as folder:
        async with receiving() as receiver:
            for number in range(rounds):
                measured[BARE].append(await measure_bare_loop(receiver, tasks, concurrency))
                sqlite = f"sqlite:///{Path(folder) / str(number)}.db"
                measured["SQLite"].append(await measure_engine(sqlite, receiver, tasks, concurrency))
                postgres = server.create_database()
                measured["PostgreSQL"].append(await measure_engine(postgres, receiver, tasks, concurrency))
                server.drop_database(postgres)
    reference = statistics.median(measured[BARE])
    print(f"{'what':20} {'webhooks/s':>10}  ratio to the bare loop")
    for what, rates in measured.items():
        rate = statistics.median(rates)
        print(f"{what:20} {rate:10,.0f}  {rate / reference:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000, help="webhooks of one measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=128, help="requests in flight at once")
    arguments = parser.parse_args()
    logging.getLogger("perdure").setLevel(logging.ERROR)
    uvloop.run(main(arguments.tasks, arguments.rounds, arguments.concurrency))
