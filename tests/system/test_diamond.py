"""A diamond: a, then b and c, then d, over HTTP from end to end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.definitions import Definition
from tests.system.agent import Agent
from tests.system.client import Client, Submitted


def diamond(agent: Agent, **of_b: Any) -> list[Definition]:
    return [
        # In any order: dependencies may stand before what they depend on.
        agent.task("d", "b", "c"),
        agent.task("b", "a", **of_b),
        agent.task("c", "a"),
        agent.task("a"),
    ]


async def in_the_middle(client: Client, agent: Agent, **of_b: Any) -> Submitted:
    """The batch at the moment when a has succeeded, and b and c run."""
    batch = await client.submit(diamond(agent, **of_b))
    await agent.wait_for("a")
    assert await client.statuses(batch) | {"a": ""} == {"a": "", "b": "Waiting", "c": "Waiting", "d": "Waiting"}
    assert await agent.report("a", "Success") == 200
    await agent.wait_for("b", "c")
    return batch


async def test_success(client: Client, agent: Agent) -> None:
    agent.finish_by_itself()
    batch = await client.submit(diamond(agent))

    await agent.told("/ended", "a", "b", "c", "d")

    assert await client.counts(batch) == {"success": 4}
    assert (agent.keys[0], sorted(agent.keys[1:3]), agent.keys[3:]) == ("a", ["b", "c"], ["d"])
    assert len(agent.receiver.requests_to("/ended")) == 4
    assert agent.receiver.requests_to("/canceled") == []


async def test_failure(client: Client, agent: Agent) -> None:
    batch = await in_the_middle(client, agent)

    assert await agent.report("b", "Failure", failure_reason="disk full") == 200

    # Nobody needs c any more, so it is told to stop.
    await agent.told("/canceled", "c")
    await agent.told("/ended", "a", "b", "d")
    assert await client.statuses(batch) == {"a": "Success", "b": "Failure", "c": "Canceled", "d": "Failure"}
    reasons = {key: (await client.task(id))["failure_reason"] for key, id in batch.ids.items()}
    assert reasons == {
        "a": None,
        "b": "disk full",
        "c": "all child tasks already ended",
        "d": "Parent task b failed",
    }
    assert agent.keys.count("d") == 0


async def test_cancel(client: Client, agent: Agent) -> None:
    batch = await in_the_middle(client, agent)

    canceled = await client.expect(200, "DELETE", f"/task/{batch.ids['b']}")

    assert canceled["status"] == "Canceled"
    await agent.told("/canceled", "b", "c")
    await agent.told("/ended", "d")
    assert await client.statuses(batch) == {"a": "Success", "b": "Canceled", "c": "Canceled", "d": "Failure"}
    assert await agent.report("b", "Success") == 409


async def test_timeout(client: Client, agent: Agent) -> None:
    batch = await in_the_middle(client, agent, timeout=1)

    await agent.told("/canceled", "b", "c")
    await agent.told("/ended", "b", "d")

    assert await client.statuses(batch) == {"a": "Success", "b": "Failure", "c": "Canceled", "d": "Failure"}
    assert (await client.task(batch.ids["b"]))["failure_reason"] == "Timeout"


@pytest.mark.parametrize("key", ["b", "d"])
async def test_pause_and_resume(client: Client, agent: Agent, key: str) -> None:
    batch = await client.submit(diamond(agent))
    await agent.wait_for("a")
    await client.expect(200, "PATCH", f"/task/pause/{batch.ids[key]}")
    assert (await client.statuses(batch))[key] == "Paused"
    agent.finish_by_itself()
    await agent.report("a", "Success")
    others = {"b": ("a", "c"), "d": ("a", "b", "c")}[key]
    await agent.told("/ended", *others)
    assert (await client.statuses(batch))[key] == "Paused"
    assert key not in agent.keys

    await client.expect(200, "PATCH", f"/task/resume/{batch.ids[key]}")

    await agent.told("/ended", "a", "b", "c", "d")
    assert await client.counts(batch) == {"success": 4}


async def test_stop(client: Client, agent: Agent) -> None:
    batch = await in_the_middle(client, agent)

    stopped = await client.expect(200, "DELETE", f"/batch/{batch.id}")

    # The receiver may have been called before its acceptance was recorded.
    assert stopped.pop("canceled_running") + stopped.pop("canceled_claimed") == 2
    assert stopped == {
        "batch_id": batch.id,
        "canceled_waiting": 1,
        "canceled_pending": 0,
        "canceled_retry_pending": 0,
        "canceled_paused": 0,
        "already_terminal": 1,
    }
    await agent.told("/canceled", "b", "c")
    assert await client.statuses(batch) == {"a": "Success", "b": "Canceled", "c": "Canceled", "d": "Canceled"}
    again = await client.expect(200, "DELETE", f"/batch/{batch.id}")
    assert again["already_terminal"] == 4
