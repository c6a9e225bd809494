"""So many calls at a time to one destination: what has no place there stays pending, and holds up nobody else."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

from perdure.domain.drafts import ActionDraft, RevisionDraft, TaskDraft, WebhookDraft
from perdure.domain.model import Executor
from perdure.engine.intake import Policies
from perdure.engine.revision import revise
from perdure.store.verbs.deliver import Room, next_delivery, take_deliveries
from perdure.store.verbs.retry import RetryTask, retry_tasks
from perdure.webhooks.egress import OPEN
from tests.store.drafts import a_task, at_most
from tests.store.scenario import Scenario

SLOW, FAST = "https://slow.example", "https://fast.example"


def calling(url: str) -> ActionDraft:
    return ActionDraft(WebhookDraft(f"{url}/hook"))


def tasks_for(url: str, *keys: str, **fields: Any) -> list[TaskDraft]:
    return [a_task(key, on_start=calling(url), **fields) for key in keys]


async def test_a_destination_gets_no_more_than_its_places(scenario: Scenario) -> None:
    await scenario.submit(*tasks_for(SLOW, "s1", "s2", "s3"), *tasks_for(FAST, "f1", "f2"))

    assert await scenario.claim(per_destination=2) == ["f1", "f2", "s1", "s2"]
    assert await scenario.claim(per_destination=2, busy={SLOW: 2, FAST: 2}) == []
    assert await scenario.claim(per_destination=2, busy={SLOW: 1}) == ["s3"]


async def test_what_waits_for_a_busy_destination_leaves_the_places_to_others(scenario: Scenario) -> None:
    await scenario.submit(*tasks_for(SLOW, *[f"s{number}" for number in range(50)], priority=5))
    scenario.clock.advance(1)
    await scenario.submit(*tasks_for(FAST, "f1", "f2", "f3"))

    assert await scenario.claim(4, per_destination=10, busy={SLOW: 9}) == ["f1", "f2", "f3", "s0"]
    assert await scenario.claim(4, per_destination=10, busy={SLOW: 10}) == []


async def test_kinds_that_call_the_same_destination_share_its_places_by_priority(scenario: Scenario) -> None:
    await scenario.submit(
        *tasks_for(SLOW, "a1", "a2", kind="a"),
        *tasks_for(SLOW, "b1", "b2", "b3", kind="b", priority=1),
        *tasks_for(SLOW, "c1", kind="c", rules=[at_most(1, "c")]),
    )

    assert await scenario.claim(per_destination=4) == ["a1", "b1", "b2", "b3"]


async def test_limits_and_places_hold_together(scenario: Scenario) -> None:
    await scenario.submit(
        *tasks_for(SLOW, "s1", "s2", "s3", kind="a", rules=[at_most(2, "a")]),
        *tasks_for(FAST, "f1", "f2", "f3", kind="b", rules=[at_most(5, "b")]),
    )

    assert await scenario.claim(per_destination=1) == ["f1", "s1"]
    assert await scenario.claim(per_destination=9, busy={SLOW: 1, FAST: 1}) == ["f2", "f3", "s2"]


async def test_one_lane_for_each_of_many_destinations(scenario: Scenario) -> None:
    hosts = [f"https://host-{number:02}.example" for number in range(40)]
    for number, host in enumerate(hosts):
        await scenario.submit(*tasks_for(host, f"t{number:02}", priority=number % 4))
        scenario.clock.advance(1)

    assert await scenario.claim(10, per_destination=1) == [f"t{number:02}" for number in range(3, 43, 4)]


async def test_workers_have_no_destination(scenario: Scenario) -> None:
    await scenario.submit(*[a_task(key, worker=True) for key in "abc"])

    assert await scenario.claim(executor=Executor.WORKER, per_destination=1) == ["a", "b", "c"]


async def test_another_on_start_is_another_destination(scenario: Scenario) -> None:
    await scenario.submit(*tasks_for(SLOW, "task"))
    await scenario.run("task")
    await scenario.fail("task")
    elsewhere = partial(revise, draft=RevisionDraft(on_start=calling(FAST)), policies=Policies(), egress=OPEN)

    await scenario.store.write(lambda session: retry_tasks(session, [RetryTask(scenario.ids["task"], elsewhere)]))

    assert (await scenario.task("task")).destination == FAST
    assert await scenario.claim(per_destination=1, busy={FAST: 1}) == []
    assert await scenario.claim(per_destination=1, busy={SLOW: 1}) == ["task"]


async def end_all(scenario: Scenario, **urls: str) -> None:
    """Tasks that have succeeded, whose ends are to be told to these addresses."""
    await scenario.submit(*[a_task(key, worker=True, on_success=[calling(url)]) for key, url in urls.items()])
    await scenario.claim(executor=Executor.WORKER)
    await scenario.succeed(*urls)


async def take(scenario: Scenario, room: Room) -> list[str]:
    """The tasks whose ends are sent now."""
    stale = scenario.clock.now() + timedelta(seconds=60)
    rows = await scenario.store.write(lambda session: take_deliveries(session, room, stale))
    return sorted(scenario.key_of(row["task_id"]) for row in rows)


async def next_moment(scenario: Scenario, room: Room) -> datetime | None:
    return await scenario.store.read(lambda session: next_delivery(session, room))


async def test_deliveries_have_places_too(scenario: Scenario) -> None:
    await end_all(scenario, s1=SLOW, s2=SLOW, s3=SLOW)
    scenario.clock.advance(1)
    await end_all(scenario, f1=FAST, f2=FAST)

    assert await next_moment(scenario, Room(3, 2)) == scenario.clock.now() - timedelta(seconds=1)
    assert await next_moment(scenario, Room(3, 2, {SLOW: 2})) == scenario.clock.now()
    assert await next_moment(scenario, Room(3, 2, {SLOW: 2, FAST: 2})) is None
    assert await take(scenario, Room(3, 2, {SLOW: 2, FAST: 2})) == []
    assert await take(scenario, Room(3, 2, {SLOW: 1})) == ["f1", "f2", "s1"]
    assert len(await take(scenario, Room(1, 2))) == 1
    assert len(await take(scenario, Room(5, 5))) == 1


async def test_deliveries_from_before_there_were_destinations_are_sent(scenario: Scenario) -> None:
    await end_all(scenario, a=SLOW, b=SLOW, c=SLOW)
    await scenario.store.write(
        lambda session: session.query("UPDATE webhook_execution SET destination = '' WHERE trigger = 'end'", [])
    )

    assert await next_moment(scenario, Room(9, 1)) == scenario.clock.now()
    assert await take(scenario, Room(9, 1, {SLOW: 1})) == ["a", "b", "c"]
