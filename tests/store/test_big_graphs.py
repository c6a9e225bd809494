"""Ten thousand tasks in one DAG: each ending is one transaction of a few statements, however far it reaches."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from itertools import pairwise

from perdure.clock import monotonic
from perdure.domain.drafts import TaskDraft
from tests.store.drafts import a_task
from tests.store.scenario import Scenario, counted

SIZE = 10_000
#: Far more than any of these takes; quadratic work would not fit.
LONGEST_SECS = 300.0


@contextmanager
def bounded() -> Iterator[None]:
    began = monotonic()
    yield
    assert monotonic() - began < LONGEST_SECS


def a_chain(length: int, condition: str = "on_success") -> list[TaskDraft]:
    keys = [f"task {number}" for number in range(length)]
    return [a_task(keys[0]), *[a_task(key, after={before: condition}) for before, key in pairwise(keys)]]


def a_fan(width: int, condition: str = "on_success") -> list[TaskDraft]:
    return [
        a_task("root"),
        *[a_task(f"leaf {number}", after={"root": condition}) for number in range(width)],
        a_task("join", after={f"leaf {number}": condition for number in range(width)}),
    ]


async def statements_of(scenario: Scenario, act: Awaitable[None]) -> list[str]:
    """The names of the statements that `act` needs."""
    names: list[str] = []
    scenario.store.on_query(lambda name, _: names.append(name))
    await act
    return names


async def test_a_failure_runs_down_a_long_chain(scenario: Scenario) -> None:
    await scenario.submit(*a_chain(SIZE))
    await scenario.run("task 0")

    with bounded():
        names = await statements_of(scenario, scenario.fail("task 0"))

    assert counted((await scenario.statuses()).values()) == {"failure": SIZE}
    assert (await scenario.task(f"task {SIZE - 1}")).failure_reason == f"Parent task task {SIZE - 2} failed"
    assert len(names) < 20


async def test_a_skip_runs_down_a_long_chain(scenario: Scenario) -> None:
    await scenario.submit(a_task("work"), a_task("task 0", after={"work": "on_failure"}), *a_chain(SIZE)[1:])
    await scenario.run("work")

    with bounded():
        await scenario.succeed("work")

    assert counted((await scenario.statuses()).values()) == {"success": 1, "skipped": SIZE}


async def test_a_cancel_climbs_a_long_chain(scenario: Scenario) -> None:
    await scenario.submit(*a_chain(SIZE))

    with bounded():
        names = await statements_of(scenario, scenario.cancel(f"task {SIZE - 1}"))

    assert counted((await scenario.statuses()).values()) == {"canceled": SIZE}
    assert len(names) < 30


async def test_a_cancel_climbs_a_ladder_of_diamonds(scenario: Scenario) -> None:
    diamonds = 200
    ladder = [a_task("joint 0")]
    for number in range(diamonds):
        sides = [f"{side} {number}" for side in ("left", "right")]
        ladder += [a_task(side, after=f"joint {number}") for side in sides]
        ladder.append(a_task(f"joint {number + 1}", after=sides))
    await scenario.submit(*ladder)

    with bounded():
        await scenario.cancel(f"joint {diamonds}")

    assert counted((await scenario.statuses()).values()) == {"canceled": len(ladder)}


async def test_a_chain_of_tasks_that_always_run_is_released_one_by_one(scenario: Scenario) -> None:
    await scenario.submit(*a_chain(5, "always"))

    for number in range(4):
        await scenario.run(f"task {number}")
        await scenario.fail(f"task {number}")
        following = await scenario.statuses(*[f"task {later}" for later in range(number + 1, 5)])
        assert list(following.values()) == ["pending", *["waiting"] * (3 - number)]


async def test_a_success_releases_a_wide_fan_and_the_fan_its_join(scenario: Scenario) -> None:
    await scenario.submit(*a_fan(SIZE))
    await scenario.run("root")

    with bounded():
        names = await statements_of(scenario, scenario.succeed("root"))
    assert counted((await scenario.statuses()).values()) == {"success": 1, "pending": SIZE, "waiting": 1}
    assert len(names) < 20

    leaves = [f"leaf {number}" for number in range(SIZE)]
    with bounded():
        await scenario.run(*leaves)
        await scenario.succeed(*leaves)
    assert await scenario.moves("join") == [("waiting", "pending")]


async def test_a_failure_takes_down_a_wide_fan(scenario: Scenario) -> None:
    await scenario.submit(*a_fan(SIZE))
    await scenario.run("root")

    with bounded():
        names = await statements_of(scenario, scenario.fail("root"))

    assert counted((await scenario.statuses()).values()) == {"failure": SIZE + 2}
    assert len(names) < 20


async def test_a_big_batch_is_stopped_at_once(scenario: Scenario) -> None:
    batch_id = await scenario.submit(*a_fan(SIZE))
    await scenario.run("root")

    with bounded():
        stopped = await scenario.stop(batch_id)

    assert stopped.canceled == {"running": 1, "waiting": SIZE + 1}
    assert counted((await scenario.statuses()).values()) == {"canceled": SIZE + 2}
