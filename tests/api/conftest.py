"""An application over a real engine on each database; the engine's loops are not running."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from perdure.api import build_app
from perdure.assemble import Instance, make_instance
from perdure.config import Server, Settings
from perdure.domain.model import Executor, Failure
from perdure.store.changes import Row
from perdure.store.interface import Session
from perdure.store.verbs.claim import Claim, claim
from perdure.store.verbs.start import Answered as StartAnswered
from perdure.store.verbs.start import settle_starts
from tests.api.client import Client

StartTasks = Callable[[], Awaitable[list[str]]]


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/test.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
async def instance(database_url: str) -> AsyncIterator[Instance]:
    """A database that is open, and an engine that takes commands."""
    settings = Settings(server=Server(database_url=database_url))
    instance = make_instance(settings, "http://perdure.test")
    await instance.store.open()
    yield instance
    await instance.engine.stop()
    await instance.store.close()


@pytest.fixture
def client(instance: Instance) -> Client:
    return Client(build_app(instance.engine.commands, instance.store, instance.metrics, instance.settings))


@pytest.fixture
def start_tasks(instance: Instance) -> StartTasks:
    """Claims every webhook task that can start and records that its receiver accepted it."""

    def decide(_row: Row, failure: Failure, _now: datetime) -> NoReturn:
        raise AssertionError(f"nothing fails here, but {failure}")

    async def start(session: Session) -> list[str]:
        soon = session.now + timedelta(seconds=90)
        claimed = await claim(session, Claim(Executor.WEBHOOK, 100, soon, session.now))
        accepted = [StartAnswered(row["id"], row["attempt"], 202) for row in claimed.to_start]
        await settle_starts(session, accepted, decide)
        return [answer.task_id for answer in accepted]

    async def start_tasks() -> list[str]:
        return await instance.store.write(start)

    return start_tasks
