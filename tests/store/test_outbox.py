"""End and cancel webhooks: written with the transition that causes them, sent until they are received."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from perdure.domain.keys import Trigger
from perdure.store.changes import Delivery, Row
from perdure.store.interface import Session
from perdure.store.verbs.deliver import Room, Settled, next_delivery, settle_deliveries, take_deliveries
from perdure.store.verbs.end import Succeed, succeed
from tests.store.drafts import a_call, a_task
from tests.store.scenario import Scenario

CLAIM_TIMEOUT = timedelta(seconds=60)


async def take(scenario: Scenario, most: int = 100) -> list[Row]:
    stale = scenario.clock.now() + CLAIM_TIMEOUT
    return await scenario.store.write(lambda session: take_deliveries(session, Room(most, most), stale))


async def next_moment(scenario: Scenario) -> datetime | None:
    return await scenario.store.read(lambda session: next_delivery(session, Room(100, 100)))


async def settle(scenario: Scenario, row: Row, status: str = "success", again_in: float | None = None) -> bool:
    moment = None if again_in is None else scenario.clock.now() + timedelta(seconds=again_in)
    http_status = 200 if status == "success" else 503
    settled = Settled(row["id"], row["attempts"], row["trigger"], status, http_status, None, moment)
    return (await scenario.store.write(lambda session: settle_deliveries(session, [settled])))[0]


async def one_delivery(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", on_success=[a_call("done")]))
    await scenario.run("task")
    await scenario.succeed("task")


@pytest.mark.parametrize(
    ("ending", "hooks"),
    [
        ("succeed", ["success:0", "success:0:1"]),
        ("fail", ["failure:0"]),
        ("cancel", ["cancel:0", "cancel:0:1", "cancel:0:2"]),
    ],
)
async def test_each_action_of_an_ending_has_a_row_and_a_key(scenario: Scenario, ending: str, hooks: list[str]) -> None:
    await scenario.submit(
        a_task(
            "task",
            on_success=[a_call("s0"), a_call("s1")],
            on_failure=[a_call("f0")],
            on_cancel=[a_call("c0"), a_call("c1"), a_call("c2")],
        )
    )
    await scenario.run("task")

    await getattr(scenario, ending)("task")

    assert await scenario.hooks("task") == hooks
    rows = [row for row in await scenario.deliveries("task") if row["trigger"] != "start"]
    assert {(row["status"], row["attempts"], row["next_send_at"]) for row in rows} == {
        ("pending", 0, scenario.clock.now())
    }
    assert [row["action_index"] for row in rows] == list(range(len(hooks)))


async def test_the_ledger_says_by_which_condition_an_end_was_told(scenario: Scenario) -> None:
    ends: dict[str, Any] = {"on_success": [a_call("s")], "on_failure": [a_call("f")], "on_cancel": [a_call("c")]}
    await scenario.submit(a_task("good", **ends), a_task("bad", **ends), a_task("gone", **ends))
    await scenario.run("good", "bad", "gone")
    await scenario.succeed("good")
    await scenario.fail("bad")
    await scenario.cancel("gone")

    found = {
        key: [(row["trigger"], row["condition"]) for row in await scenario.deliveries(key) if row["trigger"] != "start"]
        for key in ("good", "bad", "gone")
    }
    assert found == {"good": [("end", "success")], "bad": [("end", "failure")], "gone": [("cancel", "success")]}


async def test_descendants_that_fail_tell_it_and_skipped_ones_tell_nothing(scenario: Scenario) -> None:
    ends: dict[str, Any] = {"on_success": [a_call("s")], "on_failure": [a_call("f")], "on_cancel": [a_call("c")]}
    await scenario.submit(
        a_task("bad"),
        a_task("good"),
        a_task("doomed", after="bad", **ends),
        a_task("skipped", after={"good": "on_failure"}, **ends),
        a_task("pending", **ends),
    )
    await scenario.run("bad", "good")
    await scenario.fail("bad")
    await scenario.succeed("good")
    await scenario.cancel("pending")

    assert [await scenario.hooks(key) for key in ("doomed", "skipped", "pending")] == [["failure:0"], [], []]


async def test_the_row_is_in_the_transaction_of_the_ending(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", on_success=[a_call("done")]))
    await scenario.run("task")
    id = scenario.ids["task"]

    async def crash(session: Session) -> None:
        await succeed(session, [Succeed(id, 0)])
        assert [delivery.task_id for delivery in session.changes.deliveries] == [id]
        raise RuntimeError("crash before the commit")

    with pytest.raises(RuntimeError, match="crash"):
        await scenario.store.write(crash)
    assert (await scenario.status("task"), await scenario.hooks("task")) == ("running", [])

    await scenario.succeed("task")
    assert (await scenario.status("task"), await scenario.hooks("task")) == ("success", ["success:0"])


async def test_the_row_carries_what_is_to_be_sent(scenario: Scenario) -> None:
    await one_delivery(scenario)

    (row,) = await take(scenario)

    assert json.loads(row["params"])["url"] == "https://receiver.example/done"
    assert (row["task_id"], row["trigger"], row["condition"]) == (scenario.ids["task"], "end", "success")
    assert (row["attempt"], row["attempts"], row["action_index"]) == (0, 1, 0)


async def test_a_row_that_is_taken_is_not_taken_again_before_it_is_stale(scenario: Scenario) -> None:
    other = await scenario.another()
    await one_delivery(scenario)
    assert len(await take(scenario)) == 1

    assert await take(other) == []
    scenario.clock.advance(59)
    assert await take(other) == []
    scenario.clock.advance(1)
    (row,) = await take(other)
    assert row["attempts"] == 2


async def test_a_sender_that_was_taken_over_does_not_settle_the_row(scenario: Scenario) -> None:
    other = await scenario.another()
    await one_delivery(scenario)
    (first,) = await take(scenario)
    scenario.clock.advance(60)
    (second,) = await take(other)

    assert await settle(scenario, first, "failure") is False
    assert await settle(other, second) is True

    (row,) = [row for row in await scenario.deliveries("task") if row["trigger"] == "end"]
    assert (row["status"], row["attempts"], row["next_send_at"]) == ("success", 2, None)


async def test_what_was_received_is_never_sent_again(scenario: Scenario) -> None:
    await one_delivery(scenario)
    (row,) = await take(scenario)
    await settle(scenario, row)
    scenario.clock.advance("10d")

    assert await take(scenario) == []
    assert await settle(scenario, row, "failure", again_in=0) is False
    assert await take(scenario) == []


async def test_what_failed_is_sent_again_at_its_moment(scenario: Scenario) -> None:
    await one_delivery(scenario)
    (row,) = await take(scenario)

    assert await settle(scenario, row, "failure", again_in=5) is True
    assert scenario.committed[-1].due_at == scenario.clock.now() + timedelta(seconds=5)
    assert await next_moment(scenario) == scenario.clock.now() + timedelta(seconds=5)

    scenario.clock.advance(4.999)
    assert await take(scenario) == []
    scenario.clock.advance(0.001)
    (again,) = await take(scenario)
    assert (again["idempotency_key"], again["attempts"]) == (row["idempotency_key"], 2)


async def test_what_is_given_up_stays_as_a_failure(scenario: Scenario) -> None:
    await one_delivery(scenario)
    (row,) = await take(scenario)

    await settle(scenario, row, "failure")

    scenario.clock.advance("10d")
    assert await take(scenario) == []
    assert await next_moment(scenario) is None
    (left,) = [row for row in await scenario.deliveries("task") if row["trigger"] == "end"]
    assert (left["status"], left["last_status"]) == ("failure", 503)


async def test_a_delivery_never_changes_the_task(scenario: Scenario) -> None:
    await one_delivery(scenario)
    before = await scenario.task("task")
    (row,) = await take(scenario)

    await settle(scenario, row, "failure")

    assert await scenario.task("task") == before


async def test_the_longest_due_come_first_and_no_more_than_can_be_sent(scenario: Scenario) -> None:
    for key in ("first", "second", "third"):
        await scenario.submit(a_task(key, on_success=[a_call("done")]))
        await scenario.run(key)
        await scenario.succeed(key)
        scenario.clock.advance(1)

    rows = await take(scenario, most=2)

    assert {scenario.key_of(row["task_id"]) for row in rows} == {"first", "second"}


async def test_the_same_event_told_twice_has_one_row(scenario: Scenario) -> None:
    await one_delivery(scenario)

    async def repeat(session: Session) -> None:
        session.changes.deliveries.append(Delivery(scenario.ids["task"], Trigger.SUCCESS, 0, 0, '{"url": "http://a"}'))

    await scenario.store.write(repeat)

    assert await scenario.hooks("task") == ["success:0"]
    assert scenario.committed[-1].counts["idempotent_conflicts", ""] == 1
