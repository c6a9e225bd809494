"""Progress counts: gathered in memory, written together, and none of them lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any

import pytest

from perdure.domain.errors import NotFound, Unavailable
from perdure.engine import counters as counters_module
from perdure.store.interface import Work
from perdure.testing import VirtualClock
from tests.engine.definitions import UNKNOWN, task, webhook
from tests.engine.driven import Driven
from tests.engine.outage import Outage, held_up
from tests.support.receiver import Receiver


async def counted(driven: Driven, id: str) -> tuple[int, int]:
    task = await driven.task(id)
    return task.success, task.failures


async def test_counts_are_added_up_and_written_together(driven: Driven) -> None:
    ids = await driven.submit(*[task(f"t{number}") for number in range(3)])
    before = len(driven.commits)

    for number, id in enumerate(ids.values()):
        for _ in range(100):
            await driven.commands.count(id, 2, number)
    await driven.engine.counters.run_once()

    assert [await counted(driven, id) for id in ids.values()] == [(200, 0), (200, 100), (200, 200)]
    assert len(driven.commits) == before + 1


async def test_nothing_to_write_is_no_transaction(driven: Driven) -> None:
    await driven.engine.counters.run_once()

    assert driven.commits == []


async def test_counts_add_to_those_written_before(driven: Driven) -> None:
    id = await driven.submit_one(task())

    for _ in range(3):
        await driven.commands.count(id, 1, 2)
        await driven.engine.counters.run_once()

    assert await counted(driven, id) == (3, 6)


async def test_an_unknown_task_is_refused(driven: Driven) -> None:
    with pytest.raises(NotFound):
        await driven.commands.count(UNKNOWN, 1, 0)


async def test_counts_are_taken_in_any_state(driven: Driven) -> None:
    ids = await driven.submit(task("ended"), task("waiting", "paused"), task("paused"))
    await driven.commands.cancel(ids["ended"])
    await driven.commands.pause(ids["paused"])

    for id in ids.values():
        await driven.commands.count(id, 1, 1)
    await driven.engine.counters.run_once()

    assert [await counted(driven, id) for id in ids.values()] == [(1, 1)] * 3
    assert await driven.statuses(ids) == {"ended": "Canceled", "waiting": "Waiting", "paused": "Paused"}


async def test_a_count_is_a_sign_of_life(driven: Driven, clock: VirtualClock) -> None:
    id = await driven.submit_one(task())
    submitted_at = clock.now()
    clock.advance(5)

    await driven.commands.count(id, 1, 0)
    await driven.engine.counters.run_once()

    assert (await driven.task(id)).last_updated == submitted_at + timedelta(seconds=5)


async def test_a_stop_writes_what_is_gathered(driven: Driven) -> None:
    id = await driven.submit_one(task())
    await driven.commands.count(id, 7, 0)

    await driven.engine.stop()

    assert await counted(driven, id) == (7, 0)


async def test_a_stop_in_the_middle_of_a_flush_counts_once(
    driven: Driven, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await driven.submit_one(task())
    store = driven.instance.store
    write = store.write
    begun = asyncio.Event()

    def write_and_tell(work: Work[Any]) -> Awaitable[Any]:
        begun.set()
        return write(work)

    monkeypatch.setattr(store, "write", write_and_tell)
    await driven.engine.start(work=False)
    await driven.commands.count(id, 7, 0)
    async with held_up(database_url):
        begun.clear()
        await begun.wait()
        stop = asyncio.create_task(driven.engine.stop())
        await asyncio.sleep(0)

    await stop

    assert await counted(driven, id) == (7, 0)


async def test_what_could_not_be_written_is_written_later(driven: Driven, outage: Outage) -> None:
    id = await driven.submit_one(task())
    await driven.commands.count(id, 3, 1)
    await outage.begin()
    with pytest.raises(Unavailable):
        await driven.engine.counters.run_once()
    await driven.commands.count(id, 4, 0)

    await outage.end()
    await driven.engine.counters.run_once()

    assert await counted(driven, id) == (7, 1)


async def test_counts_made_during_a_flush_that_fails_are_kept_too(driven: Driven, outage: Outage) -> None:
    id = await driven.submit_one(task())
    await driven.commands.count(id, 3, 0)
    await outage.begin()
    flush = asyncio.create_task(driven.engine.counters.run_once())
    await asyncio.sleep(0)
    await driven.commands.count(id, 4, 0)
    with pytest.raises(Unavailable):
        await flush
    await outage.end()

    await driven.engine.counters.run_once()

    assert await counted(driven, id) == (7, 0)


async def test_more_counts_than_can_be_held_are_refused_not_lost(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters_module, "MOST_WAITING", 2)
    ids = list((await driven.submit(*[task(f"t{number}") for number in range(3)])).values())
    await driven.commands.count(ids[0], 1, 0)
    await driven.commands.count(ids[1], 1, 0)

    with pytest.raises(Unavailable, match="try again"):
        await driven.commands.count(ids[2], 1, 0)
    await driven.commands.count(ids[0], 1, 0)

    await driven.engine.counters.run_once()
    await driven.commands.count(ids[2], 1, 0)
    await driven.engine.counters.run_once()
    assert [await counted(driven, id) for id in ids] == [(2, 0), (1, 0), (1, 0)]


async def test_a_count_holds_off_the_timeout(driven: Driven, clock: VirtualClock, receiver: Receiver) -> None:
    id = await driven.submit_one(task(on_start=webhook(receiver.url()), timeout=30))
    await driven.start()
    clock.advance(29)
    await driven.commands.count(id, 1, 0)
    await driven.engine.counters.run_once()
    clock.advance(29)
    await driven.engine.timeout_loop.run_once()
    assert await driven.status(id) == "Running"

    clock.advance(1)
    await driven.engine.timeout_loop.run_once()

    assert await driven.status(id) == "Failure"
