"""Batches that ended long ago are forgotten: whole, a few at a time, never a live one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.store.interface import Session
from perdure.store.verbs.deliver import Room, Settled, redrive, settle_deliveries, take_deliveries
from perdure.store.verbs.keep import forget_old_batches
from tests.store.drafts import a_call, a_task, fixed_retry
from tests.store.scenario import Scenario
from tests.store.schema import read_columns
from tests.store.states import one_in_each_state

DAYS = timedelta(days=30)
#: Every table that holds something of a batch. Answers to submissions are kept apart, by their own age.
TABLES = ("batch", "task", "link", "task_attempt", "event", "webhook_execution")


async def forget(scenario: Scenario, most: int = 100) -> int:
    before = scenario.clock.now() - DAYS
    return await scenario.store.write(lambda session: forget_old_batches(session, before, most))


async def rows_left(scenario: Scenario) -> dict[str, int]:
    return {table: (await scenario.query(f"SELECT count(*) AS n FROM {table}"))[0]["n"] for table in TABLES}


async def an_ended_batch(scenario: Scenario, name: str = "") -> str:
    """A batch that has left something in every table."""
    batch_id = await scenario.submit(
        a_task(f"parent {name}", retry=fixed_retry(delay_secs=0), on_success=[a_call("done")]),
        a_task(f"child {name}", after=f"parent {name}", on_cancel=[a_call("stop")]),
    )
    await scenario.run(f"parent {name}")
    await scenario.fail(f"parent {name}")
    await scenario.release_due()
    await scenario.run(f"parent {name}")
    await scenario.succeed(f"parent {name}")
    await scenario.run(f"child {name}")
    await scenario.cancel(f"child {name}")
    await deliver(scenario)
    return batch_id


async def deliver(scenario: Scenario, status: str = "success", again_in: timedelta | None = None) -> None:
    """Send what is due, with this outcome."""
    now = scenario.clock.now()
    again_at = None if again_in is None else now + again_in

    async def send(session: Session) -> None:
        rows = await take_deliveries(session, Room(100, 100), now + timedelta(seconds=90))
        sent = [Settled(row["id"], row["attempts"], row["trigger"], status, None, None, again_at) for row in rows]
        await settle_deliveries(session, sent)

    await scenario.store.write(send)


async def test_no_table_is_forgotten(scenario: Scenario) -> None:
    columns = await scenario.store.read(read_columns)

    naming = {column.table for column in columns if column.name in ("task_id", "batch_id", "parent_id")}
    assert {*naming, "batch"} - {"submission"} == set(TABLES)


async def test_nothing_of_an_old_batch_is_left(scenario: Scenario) -> None:
    await an_ended_batch(scenario)
    before = await rows_left(scenario)
    assert all(before.values()), before
    scenario.clock.advance("31d")

    assert await forget(scenario) == 1

    assert await rows_left(scenario) == dict.fromkeys(TABLES, 0)


async def test_nothing_of_another_batch_is_touched(scenario: Scenario) -> None:
    await an_ended_batch(scenario, "old")
    scenario.clock.advance("20d")
    await an_ended_batch(scenario, "young")
    scenario.clock.advance("11d")
    both = await rows_left(scenario)

    assert await forget(scenario) == 1

    assert await rows_left(scenario) == {table: rows // 2 for table, rows in both.items()}
    assert set(await scenario.statuses()) == {"parent young", "child young"}


async def test_a_batch_counts_from_its_last_change(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.run("task")
    scenario.clock.advance("20d")
    await scenario.succeed("task")

    scenario.clock.advance("29d")
    assert await forget(scenario) == 0
    scenario.clock.advance("2d")
    assert await forget(scenario) == 1


async def test_a_batch_with_a_live_task_stays_whole(scenario: Scenario) -> None:
    await one_in_each_state(scenario)
    scenario.clock.advance("365d")
    before = await rows_left(scenario)

    assert await forget(scenario) == 0

    assert await rows_left(scenario) == before


@pytest.mark.parametrize("live", ["waiting", "pending", "claimed", "running", "retry_pending", "paused", "delayed"])
async def test_each_live_state_holds_its_batch(scenario: Scenario, live: str) -> None:
    delay: dict[str, Any] = {"delay": "400d"} if live == "delayed" else {}
    alone = a_task("task", retry=fixed_retry(), **delay)
    await scenario.submit(
        a_task("done"),
        *([a_task("parent"), a_task("task", after="parent")] if live == "waiting" else [alone]),
    )
    await scenario.run("done", *(["parent"] if live == "waiting" else []))
    await scenario.succeed("done")
    if live == "paused":
        await scenario.pause("task")
    elif live in ("claimed", "running", "retry_pending"):
        await scenario.claim()
        if live != "claimed":
            await scenario.accept("task")
        if live == "retry_pending":
            await scenario.fail("task")
    scenario.clock.advance("365d")

    assert await forget(scenario) == 0

    assert set(await scenario.statuses()) >= {"done", "task"}


async def test_a_webhook_that_is_still_to_be_sent_holds_its_batch(scenario: Scenario) -> None:
    await scenario.submit(a_task("told", on_success=[a_call("done")]), a_task("silent"))
    await scenario.run("told", "silent")
    await scenario.succeed("told", "silent")
    scenario.clock.advance("31d")
    assert await forget(scenario) == 0, "it was never sent"
    await deliver(scenario, "failure", again_in=timedelta(days=1))
    assert await forget(scenario) == 0, "it is to be sent again"

    scenario.clock.advance("1d")
    await deliver(scenario)

    assert await forget(scenario) == 1


async def test_a_webhook_that_was_given_up_holds_nothing_unless_it_is_sent_again_by_hand(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", on_success=[a_call("done")]))
    await scenario.run("task")
    await scenario.succeed("task")
    await deliver(scenario, "failure")
    scenario.clock.advance("31d")
    (id,) = [row["id"] for row in await scenario.deliveries("task") if row["trigger"] == "end"]
    await scenario.store.write(lambda session: redrive(session, [id]))
    assert await forget(scenario) == 0

    await deliver(scenario, "failure")

    assert await forget(scenario) == 1


async def test_a_few_at_a_time_and_the_oldest_first(scenario: Scenario) -> None:
    for number in range(5):
        await scenario.submit(a_task(str(number)))
        await scenario.cancel(str(number))
        scenario.clock.advance(1)
    scenario.clock.advance("31d")

    assert await forget(scenario, most=2) == 2
    assert list(await scenario.statuses()) == ["2", "3", "4"]
    assert [await forget(scenario, most=2) for _ in range(3)] == [2, 1, 0]


async def test_one_instance_at_a_time(postgres_scenario: Scenario) -> None:
    scenario, other = postgres_scenario, await postgres_scenario.another()
    await an_ended_batch(scenario)
    scenario.clock.advance("31d")

    async def forget_beside(session: Session) -> int:
        await session.fetch("try_lock_name", name="retention")
        return await forget(other)

    assert await scenario.store.write(forget_beside) == 0
    assert await forget(other) == 1
