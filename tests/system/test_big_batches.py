"""Ten thousand tasks in one request, and what becomes of them when the first one ends."""

from __future__ import annotations

import pytest

from tests.engine.definitions import Definition, on, task
from tests.system.agent import Agent
from tests.system.client import Client, Submitted

TASKS = 10_000
FOLLOWERS = TASKS - 1


def fan_out(agent: Agent, condition: str) -> list[Definition]:
    """One task that is done by the agent; all others wait for it, and then for a worker."""
    return [agent.task("root"), *[task(f"t{number}", on("root", condition)) for number in range(FOLLOWERS)]]


def chain(agent: Agent, condition: str) -> list[Definition]:
    """One after the other; only the first is done by the agent."""
    return [
        agent.task("root"),
        *[task(f"t{number}", on(f"t{number - 1}" if number else "root", condition)) for number in range(FOLLOWERS)],
    ]


async def after_the_root(client: Client, agent: Agent, tasks: list[Definition], outcome: str) -> Submitted:
    """The batch once its first task has ended."""
    batch = await client.submit(tasks)
    assert len(batch.ids) == TASKS
    await agent.wait_for("root")
    assert await agent.report("root", outcome) == 200
    return batch


async def test_ten_thousand_tasks_are_accepted_in_one_request(client: Client) -> None:
    batch = await client.submit([task(f"t{number}") for number in range(TASKS)], name="many")

    assert await client.counts(batch) == {"pending": TASKS}
    (listed,) = await client.expect(200, "GET", "/batches?name=many")
    assert (listed["batch_id"], listed["total_tasks"]) == (batch.id, TASKS)


@pytest.mark.parametrize(
    ("condition", "outcome", "counts"),
    [
        ("on_success", "Success", {"success": 1, "pending": FOLLOWERS}),
        ("on_success", "Failure", {"failure": TASKS}),
        ("on_failure", "Success", {"success": 1, "skipped": FOLLOWERS}),
        ("always", "Failure", {"failure": 1, "pending": FOLLOWERS}),
    ],
)
async def test_a_fan_out_of_ten_thousand(
    client: Client, agent: Agent, condition: str, outcome: str, counts: dict[str, int]
) -> None:
    batch = await after_the_root(client, agent, fan_out(agent, condition), outcome)

    assert await client.counts(batch) == counts


@pytest.mark.parametrize(
    ("condition", "outcome", "counts"),
    [
        ("on_success", "Success", {"success": 1, "pending": 1, "waiting": FOLLOWERS - 1}),
        ("on_success", "Failure", {"failure": TASKS}),
        ("on_failure", "Success", {"success": 1, "skipped": FOLLOWERS}),
    ],
)
async def test_a_chain_of_ten_thousand(
    client: Client, agent: Agent, condition: str, outcome: str, counts: dict[str, int]
) -> None:
    batch = await after_the_root(client, agent, chain(agent, condition), outcome)

    assert await client.counts(batch) == counts


async def test_a_canceled_end_of_a_chain_makes_the_whole_chain_pointless(client: Client, agent: Agent) -> None:
    batch = await client.submit(chain(agent, "on_success"))
    await agent.wait_for("root")

    await client.expect(200, "DELETE", f"/task/{batch.ids[f't{FOLLOWERS - 1}']}")

    await agent.told("/canceled", "root")
    assert await client.counts(batch) == {"canceled": TASKS}


async def test_stopping_ten_thousand(client: Client, agent: Agent) -> None:
    batch = await client.submit(chain(agent, "on_success"))
    await agent.wait_for("root")

    stopped = await client.expect(200, "DELETE", f"/batch/{batch.id}")

    assert stopped["canceled_waiting"] == FOLLOWERS
    assert await client.counts(batch) == {"canceled": TASKS}
