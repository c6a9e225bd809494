"""Wake-ups: from one's own commits, and from other instances through PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from perdure.engine import wakeups as wakeups_module
from perdure.engine.wakeups import Topic, Wakeups
from perdure.store.postgres import store as postgres_store
from tests.engine.definitions import STEADY, task, webhook
from tests.engine.driven import Driven, MakeEngine, eventually
from tests.support.receiver import Receiver

LISTENING = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"


def raised(wakeups: Wakeups) -> set[Topic]:
    """The topics that somebody was told to look at since they were last lowered."""
    found = set()
    for topic in Topic:
        waiting = wakeups.wait(topic)
        try:
            waiting.send(None)
        except StopIteration:
            found.add(topic)
        finally:
            waiting.close()
    return found


def lower(wakeups: Wakeups, topics: Iterable[Topic] = tuple(Topic)) -> None:
    for topic in topics:
        wakeups.lower(topic)


@pytest.fixture
def wakeups(driven: Driven) -> Wakeups:
    return driven.engine.wakeups


async def test_nothing_is_raised_at_first(wakeups: Wakeups) -> None:
    assert raised(wakeups) == set()


async def test_a_submitted_task_is_to_be_started(driven: Driven, wakeups: Wakeups) -> None:
    await driven.submit(task())

    assert raised(wakeups) == {Topic.START, Topic.WORK}


async def test_a_delayed_task_is_to_be_released(driven: Driven, wakeups: Wakeups) -> None:
    await driven.submit(task(delay=60))

    assert Topic.DUE in raised(wakeups)


async def test_a_claim_is_no_reason_to_look(driven: Driven, wakeups: Wakeups, receiver: Receiver) -> None:
    await driven.submit(task(on_start=webhook(receiver.url())))
    lower(wakeups)

    await driven.engine.start_loop.run_once()

    assert raised(wakeups) == set()
    await driven.engine.start_loop.flights.settled()


async def test_an_ending_frees_a_place_and_sends_its_webhooks(
    driven: Driven, wakeups: Wakeups, receiver: Receiver
) -> None:
    id = await driven.submit_one(task(on_start=webhook(receiver.url()), on_success=[webhook(receiver.url())]))
    await driven.start()
    lower(wakeups)

    await driven.report(id)

    assert raised(wakeups) == {Topic.START, Topic.WORK, Topic.DELIVER}


async def test_a_retry_is_to_be_released_in_time(driven: Driven, wakeups: Wakeups, receiver: Receiver) -> None:
    id = await driven.submit_one(task(on_start=webhook(receiver.url()), retry=STEADY))
    await driven.start()
    lower(wakeups)

    await driven.report(id, "Failure")

    assert Topic.DUE in raised(wakeups)


async def test_a_released_retry_is_to_be_started(driven: Driven, wakeups: Wakeups, receiver: Receiver) -> None:
    id = await driven.submit_one(task(on_start=webhook(receiver.url()), retry=STEADY))
    await driven.start()
    await driven.report(id, "Failure")
    driven.clock.advance(10)
    lower(wakeups)

    await driven.engine.due_loop.run_once()

    assert Topic.START in raised(wakeups)


async def test_a_resumed_task_is_looked_at_at_once(driven: Driven, wakeups: Wakeups) -> None:
    id = await driven.submit_one(task())
    await driven.commands.pause(id)
    lower(wakeups)

    await driven.commands.resume(id)

    assert raised(wakeups) == {Topic.START, Topic.WORK, Topic.DUE}


async def test_a_resumed_kind_is_looked_at_at_once(driven: Driven, wakeups: Wakeups) -> None:
    await driven.commands.pause_scope("kind", "test")
    lower(wakeups)

    await driven.commands.resume_scope("kind", "test")

    assert Topic.START in raised(wakeups)


@pytest.fixture
def quick_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_store, "LISTEN_CHECK_SECS", 0.02)
    monkeypatch.setattr(wakeups_module, "RECONNECT_SECS", 0.01)


@pytest.fixture
async def administration(postgres_url: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


@asynccontextmanager
async def in_touch(*instances: Driven) -> AsyncIterator[None]:
    """While entered, the instances tell each other what there is to look at."""
    tasks = [
        asyncio.create_task(hint)
        for driven in instances
        for hint in (driven.engine.wakeups.announce_forever(), driven.engine.wakeups.listen_forever())
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def listening(administration: asyncpg.Connection[Any], count: int, without: int = 0) -> list[int]:
    """The backends that listen, once there are so many of them besides `without`."""
    found: list[int] = []

    async def enough() -> bool:
        found[:] = [row["pid"] for row in await administration.fetch(LISTENING) if row["pid"] != without]
        return len(found) == count

    await eventually(enough)
    return found


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_other_instances_are_told(make_engine: MakeEngine, administration: asyncpg.Connection[Any]) -> None:
    here, there = await make_engine(), await make_engine()
    async with in_touch(here, there):
        await listening(administration, 2)

        await here.submit(task())

        await asyncio.wait_for(there.engine.wakeups.wait(Topic.START), 10)


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_one_that_ends_at_once_tells_others_before(
    make_engine: MakeEngine, administration: asyncpg.Connection[Any]
) -> None:
    here, there = await make_engine(), await make_engine()
    async with in_touch(there):
        await listening(administration, 1)

        # It never ran the loop that tells others.
        await here.submit(task())
        await here.engine.stop()

        await asyncio.wait_for(there.engine.wakeups.wait(Topic.START), 10)


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_an_instance_does_not_wake_itself_by_its_own_hint(
    make_engine: MakeEngine, administration: asyncpg.Connection[Any]
) -> None:
    here, there = await make_engine(), await make_engine()
    async with in_touch(here, there):
        await listening(administration, 2)
        await here.submit(task())
        lower(here.engine.wakeups)

        await asyncio.wait_for(there.engine.wakeups.wait(Topic.START), 10)

        # Hints come in the order in which they were sent: what the other says last, one hears last.
        await there.commands.pause_scope("kind", "test")
        await there.commands.resume_scope("kind", "test")
        await asyncio.wait_for(here.engine.wakeups.wait(Topic.START), 10)
        assert raised(here.engine.wakeups) <= {Topic.START, Topic.WORK, Topic.DUE}


@pytest.mark.usefixtures("quick_checks")
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_a_listener_whose_connection_breaks_listens_again(
    make_engine: MakeEngine, administration: asyncpg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    here, there = await make_engine(), await make_engine()
    async with in_touch(there):
        (backend,) = await listening(administration, 1)

        await administration.execute("SELECT pg_terminate_backend($1)", backend)

        await listening(administration, 1, without=backend)
        assert "no word from other instances; polling until the connection is back" in caplog.messages
        # What was said meanwhile was not heard, so everything is looked at.
        assert raised(there.engine.wakeups) == set(Topic)
        lower(there.engine.wakeups)
        await here.submit(task())
        async with in_touch(here):
            await asyncio.wait_for(there.engine.wakeups.wait(Topic.START), 10)
