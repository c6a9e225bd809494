"""How the server is doing: health, readiness, metrics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.api import build_app
from perdure.api.routes import health
from perdure.assemble import Instance
from perdure.domain.errors import Unavailable
from perdure.store.interface import Work
from tests.api.client import Client
from tests.api.conftest import StartTasks
from tests.api.drafts import called, create, task


class Away:
    """A store whose database can go away, by refusing or by never answering."""

    def __init__(self, instance: Instance) -> None:
        self._store = instance.store
        self.refuses = False
        self.hangs = False
        self.reads = 0

    async def read(self, work: Work[Any]) -> Any:
        self.reads += 1
        if self.refuses:
            raise Unavailable("The database does not answer: gone")
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        return await self._store.read(work)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
def away(instance: Instance) -> Away:
    return Away(instance)


@pytest.fixture
def client(instance: Instance, away: Away) -> Client:
    return Client(build_app(instance.engine.commands, away, instance.metrics, instance.settings))


async def test_a_healthy_server_says_so(client: Client) -> None:
    answered = await client.get("/health")

    assert (answered.status, answered.json) == (200, {"status": "ok", "database": "healthy"})
    assert (await client.get("/ready")).json == {"status": "ready"}


async def test_a_database_that_is_away_shows_and_comes_back_by_itself(client: Client, away: Away) -> None:
    away.refuses = True
    answered = await client.get("/health")
    assert (answered.status, answered.json) == (503, {"status": "degraded", "database": "unhealthy"})
    assert answered.headers["content-type"] == "application/json"
    assert (await client.get("/ready")).status == 503

    away.refuses = False
    assert (await client.get("/health")).status == 200
    assert (await client.get("/ready")).status == 200


async def test_a_database_that_hangs_is_not_waited_for(
    client: Client, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert health.PING_TIMEOUT_SECS < 5
    monkeypatch.setattr(health, "PING_TIMEOUT_SECS", 0.01)
    away.hangs = True

    assert (await client.get("/health")).status == 503


async def test_a_server_that_is_not_started_is_not_ready(instance: Instance) -> None:
    started = False
    app = build_app(
        instance.engine.commands, instance.store, instance.metrics, instance.settings, ready=lambda: started
    )
    client = Client(app)

    assert (await client.get("/ready")).json == {"status": "not ready"}
    assert (await client.get("/ready")).status == 503
    assert (await client.get("/health")).status == 200
    started = True
    assert (await client.get("/ready")).status == 200


async def test_requests_while_the_database_is_away_may_be_repeated(client: Client, away: Away) -> None:
    away.refuses = True
    answered = await client.get("/task")

    assert answered.status == 503
    assert answered.headers["retry-after"] == "1"


async def test_a_closed_database_refuses_changes_too(client: Client, instance: Instance) -> None:
    await instance.store.close()

    assert (await client.post("/task", [task()])).status == 503
    assert (await client.get("/health")).status == 503


async def test_metrics_count_tasks_by_status_and_kind(client: Client, start_tasks: StartTasks) -> None:
    await create(client, called("a", kind="etl"))
    await start_tasks()
    await create(client, task())
    answered = await client.get("/metrics")

    assert answered.status == 200
    assert answered.headers["content-type"].startswith("text/plain; version=0.0.4")
    text = answered.body.decode()
    assert 'tasks_by_status{status="running"} 1.0' in text
    assert 'tasks_by_status{status="pending"} 1.0' in text
    assert 'running_tasks_by_kind{kind="etl"} 1.0' in text


async def test_tasks_are_not_counted_for_every_scrape(
    client: Client, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(health, "monotonic", lambda: now)
    await asyncio.gather(*[client.get("/metrics") for _ in range(5)])
    assert away.reads == 1

    now += 4.9
    await client.get("/metrics")
    assert away.reads == 1

    now += 0.2
    await client.get("/metrics")
    assert away.reads == 2


async def test_metrics_answer_with_what_they_have_while_the_database_is_away(client: Client, away: Away) -> None:
    away.refuses = True
    answered = await client.get("/metrics")

    assert answered.status == 200
    assert b"tasks_by_status" in answered.body
