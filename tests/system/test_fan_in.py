"""A hundred tasks and one that waits for all of them."""

from __future__ import annotations

from typing import Any

from tests.engine.definitions import Definition, on
from tests.system.agent import Agent
from tests.system.client import Client, Submitted

PARENTS = [f"p{number}" for number in range(100)]


def fan_in(agent: Agent, *, condition: str = "on_success", **of_the_first: Any) -> list[Definition]:
    first, *others = PARENTS
    return [
        agent.task(first, **of_the_first),
        *[agent.task(key) for key in others],
        agent.task("sum", *[on(key, condition) for key in PARENTS]),
    ]


async def with_all_running(client: Client, agent: Agent, **members: Any) -> Submitted:
    batch = await client.submit(fan_in(agent, **members))
    await agent.wait_for(*PARENTS)
    await client.wait_until(batch, lambda counts: counts == {"running": 100, "waiting": 1})
    return batch


async def test_success(client: Client, agent: Agent) -> None:
    agent.finish_by_itself()
    batch = await client.submit(fan_in(agent))

    await agent.told("/ended", "sum")

    assert await client.counts(batch) == {"success": 101}
    assert (len(agent.keys), agent.keys[-1]) == (101, "sum")


async def test_failure(client: Client, agent: Agent) -> None:
    batch = await with_all_running(client, agent)

    await agent.report("p7", "Failure")

    # One statement dooms the sum, and the 99 others with it: nobody waits for them any more.
    await agent.told("/canceled", *[key for key in PARENTS if key != "p7"])
    await agent.told("/ended", "p7", "sum")
    assert await client.counts(batch) == {"failure": 2, "canceled": 99}
    assert (await client.task(batch.ids["sum"]))["failure_reason"] == "Parent task p7 failed"


async def test_failures_do_not_matter_to_who_waits_for_any_end(client: Client, agent: Agent) -> None:
    agent.finish_by_itself(**dict.fromkeys(PARENTS[::2], "Failure"))
    batch = await client.submit(fan_in(agent, condition="always"))

    await agent.told("/ended", "sum")

    assert await client.counts(batch) == {"failure": 50, "success": 51}
    assert agent.keys.count("sum") == 1


async def test_cancel(client: Client, agent: Agent) -> None:
    batch = await with_all_running(client, agent)

    await client.expect(200, "DELETE", f"/task/{batch.ids['p0']}")

    await agent.told("/canceled", *PARENTS)
    await agent.told("/ended", "sum")
    assert await client.counts(batch) == {"failure": 1, "canceled": 100}


async def test_timeout(client: Client, agent: Agent) -> None:
    batch = await client.submit(fan_in(agent, timeout=1))

    await agent.told("/canceled", *PARENTS)
    await agent.told("/ended", "p0", "sum")

    assert await client.counts(batch) == {"failure": 2, "canceled": 99}
    assert (await client.task(batch.ids["p0"]))["failure_reason"] == "Timeout"


async def test_pause_and_resume(client: Client, agent: Agent) -> None:
    agent.finish_by_itself(None)
    batch = await with_all_running(client, agent)
    for key in ("p3", "sum"):
        await client.expect(200, "PATCH", f"/task/pause/{batch.ids[key]}")
    assert await client.counts(batch) == {"running": 99, "paused": 2}
    for key in PARENTS:
        # The result of a paused task counts as well.
        assert await agent.report(key, "Success") == 200
    assert await client.counts(batch) == {"success": 100, "paused": 1}
    assert "sum" not in agent.keys

    agent.finish_by_itself()
    await client.expect(200, "PATCH", f"/task/resume/{batch.ids['sum']}")

    await agent.told("/ended", "sum")
    assert await client.counts(batch) == {"success": 101}


async def test_stop(client: Client, agent: Agent) -> None:
    batch = await with_all_running(client, agent)

    stopped = await client.expect(200, "DELETE", f"/batch/{batch.id}")

    assert (stopped["canceled_running"], stopped["canceled_waiting"]) == (100, 1)
    await agent.told("/canceled", *PARENTS)
    assert await client.counts(batch) == {"canceled": 101}
