"""What a store promises: one transaction or nothing, consistent reads, and word of what was committed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest

from perdure.clock import SteeredClock
from perdure.domain.errors import Unavailable
from perdure.store.interface import Session, StoreOptions
from perdure.store.postgres import PostgresStore
from perdure.store.postgres import store as postgres_module
from perdure.store.sqlite import SqliteStore
from perdure.testing import VirtualClock
from tests.store.databases import Database, PostgresDatabase
from tests.store.drafts import a_task
from tests.store.scenario import Scenario

ADD = "INSERT INTO lock (name) VALUES ('extra')"
COUNT = "SELECT count(*) AS n FROM lock WHERE name = 'extra'"


async def _count(session: Session) -> int:
    number: int = (await session.query(COUNT, []))[0]["n"]
    return number


async def test_what_is_written_together_is_there_together_or_not_at_all(scenario: Scenario) -> None:
    async def write_and_fail(session: Session) -> None:
        await session.query(ADD, [])
        assert await _count(session) == 1
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await scenario.store.write(write_and_fail)

    assert await scenario.store.read(_count) == 0


async def test_a_read_does_not_write(scenario: Scenario) -> None:
    with pytest.raises((Unavailable, asyncpg.PostgresError)):
        await scenario.store.read(lambda session: session.query(ADD, []))

    assert await scenario.store.read(_count) == 0


class _Undone(Exception):
    pass


@pytest.mark.parametrize("count", [1, 3, 600, 6000])
async def test_rows_are_kept_as_they_were_handed_in(scenario: Scenario, count: int) -> None:
    """Whether a column differs from row to row, is the same in all, or empty in some or all of them."""
    columns = ("task_id", "batch_id", "at", "from_status", "to_status", "attempt", "reason", "instance")
    ids = [f"00000000-0000-7000-8000-{number:012}" for number in range(count)]
    reasons = [None if number % 3 else f"reason {number}" for number in range(count)]
    handed_in = [
        (id, ids[0], scenario.clock.now(), None, "pending", number, reason, "here")
        for number, (id, reason) in enumerate(zip(ids, reasons, strict=True))
    ]
    found: list[tuple[object, ...]] = []

    async def insert_and_read(session: Session) -> None:
        await session.insert("event", columns, handed_in)
        rows = await session.query(f"SELECT {', '.join(columns)} FROM event ORDER BY seq", [])
        found.extend(tuple(row[column] for column in columns) for row in rows)
        raise _Undone

    with pytest.raises(_Undone):
        await scenario.store.write(insert_and_read)

    assert found == handed_in


async def test_listeners_hear_of_what_was_committed_and_of_nothing_else(scenario: Scenario) -> None:
    heard: list[int] = []
    names: list[str] = []
    scenario.store.on_commit(lambda changes: heard.append(len(changes.moved)))
    scenario.store.on_query(lambda name, seconds: names.append(name) if seconds >= 0 else None)

    await scenario.submit(a_task("a"), a_task("b"))

    async def fail(session: Session) -> None:
        session.changes.count("never")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await scenario.store.write(fail)
    assert heard == [2]
    assert "insert_task" in names


async def test_a_transaction_has_one_moment(scenario: Scenario) -> None:
    async def see(session: Session) -> tuple[object, object]:
        before = session.now
        scenario.clock.advance(5)
        return before, session.now

    before, after = await scenario.store.write(see)

    assert before == after


async def test_a_store_that_is_not_open_says_so(database: Database) -> None:
    store = database.make_store(StoreOptions("here"), VirtualClock())
    with pytest.raises(Unavailable, match="The database is not open"):
        await store.write(_count)

    await store.open()
    await store.close()

    with pytest.raises(Unavailable, match="The database is not open"):
        await store.write(_count)
    with pytest.raises(Unavailable, match="The database is not open"):
        await store.read(_count)


async def test_a_transaction_on_sqlite_waits_for_nothing_else(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "perdure.db"), StoreOptions("here"), VirtualClock())
    await store.open()
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait_elsewhere(session: Session) -> None:
        await session.query(ADD, [])
        await never

    try:
        with pytest.raises(RuntimeError, match="waited for something other than the database"):
            await store.write(wait_elsewhere)
        assert await store.read(_count) == 0
    finally:
        await store.close()


async def test_a_lost_race_is_run_again(postgres_scenario: Scenario) -> None:
    tries = 0

    async def lose_twice(session: Session) -> int:
        nonlocal tries
        tries += 1
        await session.query(ADD, [])
        if tries < 3:
            raise asyncpg.DeadlockDetectedError("deadlock detected")
        return await _count(session)

    assert await postgres_scenario.store.write(lose_twice) == 1
    assert tries == 3


async def test_a_race_that_is_always_lost_is_given_up(
    postgres_scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_module, "WRITE_TRIES", 2)
    tries = 0

    async def lose(_session: Session) -> None:
        nonlocal tries
        tries += 1
        raise asyncpg.SerializationError("could not serialize")

    with pytest.raises(asyncpg.SerializationError):
        await postgres_scenario.store.write(lose)
    assert tries == 2


async def test_a_real_deadlock_is_resolved(postgres_scenario: Scenario) -> None:
    """Each locks one row, waits for the other to have done so too, and then wants the other's."""
    one, other = postgres_scenario, await postgres_scenario.another()
    await one.submit(a_task("a"), a_task("b"))
    both_hold = asyncio.Barrier(2)
    met: set[str] = set()

    async def lock_both(scenario: Scenario, first: str, second: str) -> None:
        async def work(session: Session) -> None:
            await session.fetch("lock_rows", [(scenario.ids[first],)])
            if first not in met:
                met.add(first)
                await both_hold.wait()
            await session.fetch("lock_rows", [(scenario.ids[second],)])

        await scenario.store.write(work)

    await asyncio.gather(lock_both(one, "a", "b"), lock_both(other, "b", "a"))

    assert met == {"a", "b"}


async def test_an_instance_hears_the_hints_of_others_and_not_its_own(postgres_scenario: Scenario) -> None:
    one, other = postgres_scenario, await postgres_scenario.another("there")
    heard: asyncio.Queue[str] = asyncio.Queue()
    listening = asyncio.create_task(one.store.listen(heard.put_nowait))
    try:
        async with asyncio.timeout(30):
            while heard.empty():
                await one.store.announce(["mine"])
                await other.store.announce(["theirs"])
                await asyncio.sleep(0)
            assert await heard.get() == "theirs"
    finally:
        listening.cancel()
        await asyncio.wait([listening])


async def test_the_time_of_the_database_decides(postgres_scenario: Scenario) -> None:
    """With a clock of its own, a store on PostgreSQL follows the server's."""
    assert isinstance(postgres_scenario.database, PostgresDatabase)
    store = PostgresStore(postgres_scenario.database.url, StoreOptions("here"))
    await store.open()
    try:
        assert isinstance(store.clock, SteeredClock)
        (row,) = await store.read(lambda session: session.query("SELECT clock_timestamp() AS at", []))
        assert abs((store.clock.now() - row["at"]).total_seconds()) < 5
    finally:
        await store.close()
