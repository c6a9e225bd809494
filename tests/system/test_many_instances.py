"""Ten instances on one database: they share the work, do nothing twice, and keep every limit together."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import aiohttp
import asyncpg
import pytest

from perdure.assemble import make_instance
from perdure.config import Engine, Limits, Server, Settings
from tests.engine.definitions import limit
from tests.system.agent import Agent
from tests.system.client import Client
from tests.system.server import serve

INSTANCES = 10
CUSTOMERS = 10


@pytest.fixture
async def client(postgres_url: str, session: aiohttp.ClientSession) -> AsyncIterator[Client]:
    """Speaks with one of ten instances that run on the same database."""
    settings = Settings(
        server=Server(database_url=postgres_url),
        engine=Engine(database_pool_size=4),
        limits=Limits(kinds={"configured": 7}),
    )
    async with AsyncExitStack() as running:
        url, _ = await running.enter_async_context(serve(settings))
        for _ in range(INSTANCES - 1):
            instance = make_instance(settings, url)
            await instance.store.open()
            running.push_async_callback(instance.store.close)
            await instance.engine.start()
            running.push_async_callback(instance.engine.stop)
        yield Client(session, url)


async def test_a_thousand_tasks_are_each_called_once_and_no_limit_is_exceeded(
    client: Client, agent: Agent, postgres_url: str
) -> None:
    agent.finish_by_itself()
    definitions = [agent.task(f"free {number}", group="free") for number in range(600)]
    definitions += [
        agent.task(f"ruled {number}", group="ruled", kind="ruled", rules=[limit("ruled", 5)]) for number in range(150)
    ]
    definitions += [agent.task(f"configured {number}", group="configured", kind="configured") for number in range(150)]
    definitions += [
        agent.task(
            f"customer {number}",
            group=f"customer {number % CUSTOMERS}",
            kind="import",
            metadata={"customer": number % CUSTOMERS},
            rules=[limit("import", 1, "customer")],
        )
        for number in range(100)
    ]
    batch = await client.submit(definitions)

    await agent.receiver.wait_for(1000, "/ended", timeout=90)

    assert await client.failures(batch) == {}
    assert await client.counts(batch) == {"success": 1000}
    starts = Counter(request.headers["Idempotency-Key"] for request in agent.calls)
    assert starts == Counter(f"{id}:start:0" for id in batch.ids.values())
    ends = Counter(request.headers["Idempotency-Key"] for request in agent.receiver.requests_to("/ended"))
    assert ends == Counter(f"{id}:success:0" for id in batch.ids.values())
    most = agent.most_running
    assert most["ruled"] <= 5
    assert most["configured"] <= 7
    assert [most[f"customer {number}"] for number in range(CUSTOMERS)] == [1] * CUSTOMERS
    assert await count_workers(postgres_url) > 1


async def count_workers(postgres_url: str) -> int:
    """How many instances have done something."""
    connection = await asyncpg.connect(postgres_url)
    try:
        workers: int = await connection.fetchval("SELECT count(DISTINCT instance) FROM task_attempt")
    finally:
        await connection.close()
    return workers


async def test_parents_that_end_at_the_same_moment_start_their_child_once(client: Client, agent: Agent) -> None:
    agent.finish_by_itself()
    parents = [f"p{number}" for number in range(50)]
    batch = await client.submit([*[agent.task(key) for key in parents], agent.task("child", *parents)])

    await agent.told("/ended", "child")

    assert await client.counts(batch) == {"success": 51}
    assert agent.keys.count("child") == 1
