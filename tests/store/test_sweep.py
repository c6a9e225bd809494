"""The sweeper corrects waits that disagree with a recount. In a healthy system it finds nothing."""

from __future__ import annotations

from perdure.store.interface import Session
from perdure.store.verbs.sweep import FIRST_ID, Swept, sweep
from tests.store.drafts import a_task
from tests.store.scenario import Scenario


async def _sweep(scenario: Scenario, after: str = FIRST_ID, most: int = 100) -> Swept:
    return await scenario.store.write(lambda session: sweep(session, after, most))


async def _damage(scenario: Scenario, key: str, waits: int) -> None:
    async def damage(session: Session) -> None:
        await session.query("UPDATE task SET waits = ? WHERE id = ?", [waits, scenario.ids[key]])

    await scenario.store.write(damage)


async def test_a_healthy_database_is_left_alone(scenario: Scenario) -> None:
    await scenario.submit(a_task("a"), a_task("b", after="a"), a_task("c", after={"a": "always", "b": "on_failure"}))
    await scenario.run("a")

    assert await _sweep(scenario) == Swept([], FIRST_ID)

    await scenario.succeed("a")
    assert await _sweep(scenario) == Swept([], FIRST_ID)


async def test_a_task_that_waits_for_too_many_is_released(scenario: Scenario) -> None:
    await scenario.submit(a_task("a"), a_task("b"), a_task("child", after=["a", "b"]))
    await _damage(scenario, "child", 3)
    await scenario.run("a", "b")
    await scenario.succeed("a", "b")
    assert await scenario.status("child") == "waiting"

    assert (await _sweep(scenario)).corrected == [scenario.ids["child"]]

    assert await scenario.moves("child") == [("waiting", "pending")]


async def test_a_wrong_count_of_live_parents_is_set_right(scenario: Scenario) -> None:
    await scenario.submit(a_task("a"), a_task("b"), a_task("child", after=["a", "b"]))
    await _damage(scenario, "child", 1)

    await _sweep(scenario)

    assert await scenario.column("child", "waits") == 2
    assert await scenario.status("child") == "waiting"


async def test_it_goes_page_by_page_and_begins_again(scenario: Scenario) -> None:
    await scenario.submit(*[a_task(str(number)) for number in range(5)])
    ids = sorted(scenario.ids.values())

    first = await _sweep(scenario, most=2)
    second = await _sweep(scenario, first.after, most=2)
    third = await _sweep(scenario, second.after, most=2)

    assert [first.after, second.after, third.after] == [ids[1], ids[3], FIRST_ID]
