"""Drains tasks with a worker and prints the seconds, by the clock and of the processor, as JSON.

python -m bench.drain.perdure_program URL TASKS FAILING LATER BATCH
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sqlite3
import sys
import time
from typing import Any

import asyncpg
import uvloop

from bench.drafts import PAYLOAD
from bench.drain.scheduled import multiply
from perdure import Context, Perdure, Retry, TaskFunction
from perdure.config import load

SUBMIT_CHUNK = 5000


class Refused(Exception):
    """What the failing tasks raise."""


class Countdown:
    """Tells when a number of tasks have succeeded."""

    def __init__(self) -> None:
        self._left = 0
        self._over = asyncio.Event()

    def begin(self, tasks: int) -> None:
        self._left = tasks
        self._over.clear()

    def count(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._over.set()

    async def wait(self) -> None:
        await self._over.wait()


def make_tasks(app: Perdure, countdown: Countdown) -> tuple[TaskFunction[None], TaskFunction[None]]:
    @app.task
    async def succeed(_order: dict[str, Any]) -> None:
        countdown.count()

    @app.task(retry=Retry.immediate(max_retries=2))
    async def fail_twice(_order: dict[str, Any], ctx: Context) -> None:
        if ctx.attempt < 2:
            raise Refused
        countdown.count()

    return succeed, fail_twice


async def submit(task: TaskFunction[Any], count: int) -> None:
    for begin in range(0, count, SUBMIT_CHUNK):
        await task.submit_many([PAYLOAD] * min(SUBMIT_CHUNK, count - begin))


async def query(url: str, sql: str) -> int | None:
    """The one number that a statement returns, if any, asked of the database itself."""
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            row = file.execute(sql).fetchone()
            return row[0] if row else None
    connection = await asyncpg.connect(url)
    try:
        number: int | None = await connection.fetchval(sql)
        return number
    finally:
        await connection.close()


async def settle(url: str) -> None:
    """What was queued long ago is on disk, and counted: its cost does not fall on the drain."""
    if url.startswith("sqlite"):
        await query(url, "PRAGMA wal_checkpoint(TRUNCATE)")
    else:
        await query(url, "VACUUM ANALYZE")
        await query(url, "CHECKPOINT")


async def work_off(app: Perdure, countdown: Countdown, tasks: int, batch: int) -> tuple[float, float]:
    """Seconds from the start of a worker to its end, when every result is written."""
    countdown.begin(tasks)
    began, processor_began = time.perf_counter(), time.process_time()
    # One batch is written while the functions of the other run.
    async with app.worker(concurrency=2 * batch):
        await countdown.wait()
    return time.perf_counter() - began, time.process_time() - processor_began


async def drain(url: str, tasks: int, failing: int, later: int, batch: int) -> list[tuple[float, float]]:
    settings = load({"server.database_url": url, "engine.claim_batch": batch}, environ={})
    countdown = Countdown()
    seconds = []
    async with Perdure(settings=settings) as app:
        succeed, fail_twice = make_tasks(app, countdown)
        if later:
            await succeed.options(delay="30d").submit(PAYLOAD)
            await multiply(url, later - 1)
        for task, count in ((succeed, tasks), (fail_twice, failing)):
            await submit(task, count)
            await settle(url)
            seconds.append(await work_off(app, countdown, count, batch) if count else (0.0, 0.0))
    ended = await query(url, "SELECT count(*) FROM task WHERE status = 'success'")
    attempts = await query(url, "SELECT count(*) FROM task_attempt")
    if (ended, attempts) != (tasks + failing, tasks + 3 * failing):
        raise RuntimeError(f"{ended} tasks ended well in {attempts} attempts: that is not what was asked for.")
    return seconds


def main(url: str, tasks: int, failing: int, later: int, batch: int) -> None:
    # That tasks fail is what is asked for here.
    logging.getLogger("perdure").setLevel(logging.CRITICAL)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(drain(url, tasks, failing, later, batch))))


if __name__ == "__main__":
    main(sys.argv[1], *(int(number) for number in sys.argv[2:6]))
