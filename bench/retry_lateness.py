"""`python -m bench.retry_lateness`: how late retries start on an idle instance, from their moment to the request.

Tasks are due evenly over ten seconds. The loops are the real ones, and so are the clock, the database and the HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from aiohttp import web

from bench.store import settings_for
from perdure.assemble import Instance, make_instance
from perdure.clock import Clock
from perdure.domain.drafts import ActionDraft, BatchDraft, TaskDraft, WebhookDraft
from perdure.store.interface import Session
from tests.support.postgres import PostgresServer

TASKS = 500
OVER_SECS = 10.0
#: The first moment lies far enough ahead for all first attempts to have failed before it.
AHEAD_SECS = 8.0
LONGEST_WAIT_SECS = 60.0


class Receiver:
    """Refuses every first attempt, accepts every retry, and notes when it came by the engine's clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.arrived: dict[str, datetime] = {}
        self.done = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def open(self) -> str:
        application = web.Application()
        application.router.add_post("/", self._receive)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/"

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        now = self._clock.now()
        if request.headers["X-Task-Attempt"] == "0":
            return web.Response(status=503)
        self.arrived[request.headers["X-Task-Id"]] = now
        if len(self.arrived) == TASKS:
            self.done.set()
        return web.Response(status=200)


@dataclass(frozen=True, slots=True)
class Lateness:
    """Milliseconds from the moment of a retry to its request at the receiver."""

    milliseconds: Sequence[float]

    def percentile(self, percent: int) -> float:
        return statistics.quantiles(self.milliseconds, n=100, method="inclusive")[percent - 1]


def tasks_due(url: str) -> BatchDraft:
    """Tasks whose first retry comes at moments spread evenly over the time of the measurement."""
    on_start = ActionDraft(WebhookDraft(url, "Post"))
    drafts = []
    for number in range(TASKS):
        delay = AHEAD_SECS + OVER_SECS * number / TASKS
        policy = {"strategy": "fixed_delay", "delay_secs": delay, "max_retries": 1}
        drafts.append(TaskDraft(f"t{number}", "bench", "bench", on_start=on_start, retry=policy))
    return BatchDraft(drafts)


async def measure(url: str) -> Lateness:
    instance = make_instance(settings_for(url), "http://127.0.0.1:8000")
    await instance.store.open()
    receiver = Receiver(instance.engine.clock)
    try:
        address = await receiver.open()
        await instance.engine.start()
        await instance.engine.commands.submit(tasks_due(address))
        await asyncio.wait_for(receiver.done.wait(), LONGEST_WAIT_SECS)
        due = await planned(instance)
    finally:
        await instance.engine.stop()
        await instance.store.close()
        await receiver.close()
    return Lateness([(receiver.arrived[id] - moment) / timedelta(milliseconds=1) for id, moment in due.items()])


async def planned(instance: Instance) -> dict[str, datetime]:
    """By task: the moment of its retry, as it was stored when the first attempt failed."""

    async def read(session: Session) -> dict[str, datetime]:
        sql = "SELECT task_id, next_retry_at FROM task_attempt WHERE attempt = 0"
        return {row["task_id"]: row["next_retry_at"] for row in await session.query(sql, [])}

    return await instance.store.read(read)


def show(name: str, lateness: Lateness) -> None:
    p50, p99 = lateness.percentile(50), lateness.percentile(99)
    worst = max(lateness.milliseconds)
    print(f"{name:12} {len(lateness.milliseconds):6} {p50:9.1f} {p99:9.1f} {worst:9.1f}")


def main(database_url: str | None) -> None:
    # That first attempts fail is what is asked for here.
    logging.getLogger("perdure").setLevel(logging.ERROR)
    print(f"{'database':12} {'tasks':>6} {'p50 ms':>9} {'p99 ms':>9} {'max ms':>9}")
    if database_url is not None:
        show("given", asyncio.run(measure(database_url)))
        return
    with tempfile.TemporaryDirectory() as folder:
        show("SQLite", asyncio.run(measure(f"sqlite:///{folder}/retry.db")))
    with PostgresServer(durable=True) as server:
        show("PostgreSQL", asyncio.run(measure(server.create_database())))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database-url", help="an empty database to measure on; SQLite and PostgreSQL by default")
    main(parser.parse_args().database_url)
