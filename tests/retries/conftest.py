"""Every story is told on SQLite and on PostgreSQL, and leaves a database that agrees with itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Protocol

import pytest

from perdure.config import Settings
from perdure.engine import service
from perdure.store.statements import Dialect
from perdure.testing import VirtualClock
from tests.retries.story import Story
from tests.store.audit import audit
from tests.support.receiver import Receiver


@pytest.fixture(params=list(Dialect), ids=str)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database; a test that takes it runs once on each kind."""
    if request.param is Dialect.SQLITE:
        return f"sqlite:///{tmp_path}/perdure.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


class TellStory(Protocol):
    async def __call__(self, settings: Settings | None = None, **sections: Any) -> Story: ...


@pytest.fixture(autouse=True)
def dice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every engine throws the same dice in every run, and no two engines of a test the same."""
    seeds = count(1)
    monkeypatch.setattr(service, "Random", lambda: Random(next(seeds)))


@pytest.fixture
async def tell(database_url: str, clock: VirtualClock, receiver: Receiver) -> AsyncIterator[TellStory]:
    """Opens engines on the database of this test: with sections of settings by their names, or whole settings."""
    numbers = count(1)
    async with AsyncExitStack() as opened:

        async def open_story(settings: Settings | None = None, **sections: Any) -> Story:
            settings = settings or Settings(**sections)
            server = replace(
                settings.server,
                database_url=database_url,
                instance_id=f"instance-{next(numbers)}",
                shutdown_grace_secs=5,
            )
            story = await Story.open(replace(settings, server=server), clock, receiver)
            opened.push_async_callback(story.close)
            # Before anything is closed, what was left behind is looked through.
            opened.push_async_callback(audit, story.instance.store)
            return story

        yield open_story


@pytest.fixture
async def story(tell: TellStory) -> Story:
    """One engine with the default settings."""
    return await tell()
