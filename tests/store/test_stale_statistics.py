"""What PostgreSQL believes about a table is old news: plans must be good for tasks that moved since it looked."""

from __future__ import annotations

import re
from functools import partial

import pytest

from perdure.domain.model import Task
from perdure.store.interface import Session
from perdure.store.postgres import statistics
from tests.store.drafts import a_task
from tests.store.plans import BIG, Ask, explain
from tests.store.scenario import Scenario
from tests.store.test_big_graphs import a_chain

TASKS = 5000


def _asks(tasks: list[Task], scenario: Scenario) -> dict[str, Ask]:
    """Statements that move tasks by their ids, under a condition that no task met when statistics were taken."""
    some = tasks[:200]
    ids = [(task.id,) for task in some]
    attempts = [(task.id, 0) for task in some]
    lease = {"instance": "here", "lease_until": scenario.clock.now()}
    return {
        "release_retries": (ids, {}),
        "release_delayed": (ids, {}),
        "resume": (ids, {}),
        "reap_claims": (ids, {}),
        "release_claims": (attempts, {"instance": "here"}),
        "renew_leases": (attempts, lease),
        "show_life": ([(id, 0, None, None) for (id,) in ids], {"instance": "here"}),
        "begin": ([(task.id, task.lane) for task in some], lease),
        "succeed": ([(id, 0, None) for (id,) in ids], {}),
    }


async def test_tasks_are_looked_up_by_their_ids(postgres_scenario: Scenario) -> None:
    scenario = postgres_scenario
    stored = await scenario.submit_for_answer([a_task(f"t{number}") for number in range(TASKS)])
    # Now nothing waits for a retry, is delayed, paused, or in anybody's hands.
    await scenario.store.write(lambda session: session.query("ANALYZE", []))

    for name, ask in _asks(stored.tasks, scenario).items():
        plan = await scenario.store.write(partial(explain, name=name, ask=ask))
        assert plan.indexes == {"task_pkey"}, f"{name}: {plan.text}"
        assert all(step.by_condition for step in plan.steps), f"{name} walks the whole table: {plan.text}"


async def count_when_all_is_gone(session: Session) -> None:
    """In a quiet night, before a large batch comes in."""
    for table in BIG:
        await session.query(f"DELETE FROM {table}", [])
    await session.query("ANALYZE", [])


async def rows_known(session: Session) -> dict[str, int]:
    rows = await session.query("SELECT relname, reltuples FROM pg_class WHERE relname IN ('task', 'link')", [])
    return {row["relname"]: int(row["reltuples"]) for row in rows}


async def test_a_large_batch_is_counted_before_anybody_works_on_it(postgres_scenario: Scenario) -> None:
    """Else ten thousand tasks in a chain are joined with each other as if there were one, which takes minutes."""
    scenario = postgres_scenario
    await scenario.submit(*a_chain(TASKS))
    await scenario.store.write(count_when_all_is_gone)
    assert await scenario.store.read(rows_known) == {"task": 0, "link": 0}

    await scenario.submit(*a_chain(TASKS))

    assert await scenario.store.read(rows_known) == {"task": TASKS, "link": TASKS - 1}


async def test_many_small_batches_are_counted_too(postgres_scenario: Scenario) -> None:
    scenario = postgres_scenario
    await scenario.submit(*[a_task(f"t{number}") for number in range(TASKS)])
    await scenario.store.write(count_when_all_is_gone)

    for _ in range(5):
        assert (await scenario.store.read(rows_known))["task"] == 0
        await scenario.submit(*[a_task(f"t{number}") for number in range(100)])

    assert (await scenario.store.read(rows_known))["task"] == 500


async def test_lanes_are_found_after_statistics_of_an_empty_table(
    postgres_scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row is expected, but thousands are there, because nobody has counted them yet."""
    scenario = postgres_scenario
    tasks = [a_task(f"t{number}", kind=f"kind {number % 10}") for number in range(TASKS)]
    await scenario.submit_for_answer(tasks)
    await scenario.store.write(count_when_all_is_gone)
    monkeypatch.setattr(statistics, "LOOK_AFTER", TASKS * 2)
    await scenario.submit_for_answer(tasks)

    plan = await scenario.store.write(partial(explain, name="open_lanes", ask=(None, {})))
    # Else the first of each lane is looked for once for every task that there is.
    assert not re.search(r'Filter": "[^"]*SubPlan', plan.text), plan.text
