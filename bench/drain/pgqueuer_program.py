"""Drains PgQueuer's queue and prints the seconds, by the clock and of the processor, as JSON.

Runs in an environment of its own, which `environment.py` makes. The settings are those of PgQueuer's guide to tuning,
and where it leaves a choice, the ones that measured best.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.executors import DatabaseRetryEntrypointExecutor, EntrypointExecutorParameters
from pgqueuer.models import Job
from pgqueuer.queries import Queries

#: The guide: a pool for high throughput. Retries, a transaction each, need one; more connections did not help.
POOL = 20
ENQUEUE_CHUNK = 5000
PAYLOAD = b'{"order": 7, "note": "' + b"x" * 150 + b'"}'
#: As `enqueue` would, with one statement; scheduled under the name that is drained, as they are in a real queue.
LATER = """
INSERT INTO pgqueuer (priority, entrypoint, payload, execute_after, status, created, updated, heartbeat)
SELECT 0, 'succeed', $1, now() + interval '30 days' + n * interval '1 second', 'queued', now(), now(), now()
FROM generate_series(1, $2) AS series(n)
"""


class Refused(Exception):
    """What the failing jobs raise."""


def retry_at_once(parameters: EntrypointExecutorParameters) -> DatabaseRetryEntrypointExecutor:
    """The documented way to retries that outlive a process, with no delay between tries."""
    return DatabaseRetryEntrypointExecutor(parameters=parameters, max_attempts=5, initial_delay=timedelta(0))


async def enqueue(pool: asyncpg.Pool, entrypoint: str, jobs: int) -> None:
    queries = Queries(AsyncpgPoolDriver(pool))
    for begin in range(0, jobs, ENQUEUE_CHUNK):
        count = min(ENQUEUE_CHUNK, jobs - begin)
        await queries.enqueue([entrypoint] * count, [PAYLOAD] * count, [0] * count)
    # What was queued long ago is on disk, and counted: its cost does not fall on the drain.
    await pool.execute("VACUUM ANALYZE", timeout=3600)
    await pool.execute("CHECKPOINT", timeout=3600)


async def work_off(pool: asyncpg.Pool, jobs: int, batch: int) -> tuple[float, float]:
    """Seconds until this many jobs have succeeded and the queue says so."""
    worker = PgQueuer(AsyncpgPoolDriver(pool))
    succeeded = 0

    def count() -> None:
        nonlocal succeeded
        succeeded += 1
        if succeeded == jobs:
            worker.shutdown.set()

    @worker.entrypoint("succeed")
    async def succeed(_job: Job) -> None:
        count()

    @worker.entrypoint("fail-twice", executor_factory=retry_at_once)
    async def fail_twice(job: Job) -> None:
        if job.attempts < 2:
            raise Refused
        count()

    began, processor_began = time.perf_counter(), time.process_time()
    # Returns when what is held in its buffers is written.
    await worker.run(batch_size=batch)
    return time.perf_counter() - began, time.process_time() - processor_began


async def main(url: str, tasks: int, failing: int, later: int, batch: int) -> None:
    # That jobs fail is what is asked for here.
    logging.getLogger("pgqueuer").setLevel(logging.CRITICAL)
    async with asyncpg.create_pool(url, min_size=POOL, max_size=POOL) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        await queries.install()
        await queries.optimize_autovacuum()
        if later:
            await pool.execute(LATER, PAYLOAD, later, timeout=3600)
        seconds = []
        for entrypoint, jobs in (("succeed", tasks), ("fail-twice", failing)):
            await enqueue(pool, entrypoint, jobs)
            seconds.append(await work_off(pool, jobs, batch) if jobs else (0.0, 0.0))
            left = await pool.fetchval("SELECT count(*) FROM pgqueuer")
            if left != later:
                raise RuntimeError(f"{left} jobs are left in the queue, and {later} should be.")
        print(json.dumps(seconds))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1], *(int(number) for number in sys.argv[2:6])))
