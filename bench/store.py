"""Tasks claimed and finished through the store, with the full audit trail and history."""

from __future__ import annotations

import time
from datetime import timedelta

from bench.drafts import batch_of
from perdure.assemble import make_instance
from perdure.config import Settings, load
from perdure.domain.model import Executor
from perdure.store.interface import Session, Store
from perdure.store.verbs.claim import Claim, claim
from perdure.store.verbs.end import Succeed, succeed

GROUP = 100
SUBMIT_CHUNK = 5000


def settings_for(url: str) -> Settings:
    return load({"server.database_url": url}, environ={})


async def measure_store(url: str, tasks: int) -> tuple[float, float]:
    """(tasks submitted per second in chunks, tasks claimed and finished per second in groups of 100)."""
    instance = make_instance(settings_for(url), "http://127.0.0.1:8000")
    await instance.store.open()
    try:
        began = time.perf_counter()
        for _ in range(tasks // SUBMIT_CHUNK):
            await instance.engine.commands.submit(batch_of(SUBMIT_CHUNK))
        submitted = tasks / (time.perf_counter() - began)
        drained = await _drain(instance.store, tasks)
    finally:
        await instance.engine.stop()
        await instance.store.close()
    return submitted, drained


async def _drain(store: Store, tasks: int) -> float:
    finished: list[Succeed] = []
    done = 0

    async def round_trip(session: Session) -> list[Succeed]:
        """Finish what the last round claimed, claim the next, in one transaction."""
        if finished:
            await succeed(session, finished)
        lease = session.now + timedelta(seconds=90)
        taken = await claim(session, Claim(Executor.WORKER, GROUP, lease, session.now))
        return [Succeed(row["id"], row["attempt"], linked=row["linked"]) for row in taken.to_start]

    began = time.perf_counter()
    while done < tasks:
        taken = await store.write(round_trip)
        done += len(finished)
        finished = taken
    return tasks / (time.perf_counter() - began)
