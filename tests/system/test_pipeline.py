"""A pipeline with conditions: build, deploy; roll back if that fails; notify in any case."""

from __future__ import annotations

from typing import Any

from tests.engine.definitions import Definition, on
from tests.system.agent import Agent
from tests.system.client import Client, Submitted


def pipeline(agent: Agent, **of_deploy: Any) -> list[Definition]:
    return [
        agent.task("build"),
        agent.task("deploy", "build", **of_deploy),
        agent.task("rollback", on("deploy", "on_failure")),
        agent.task("notify", on("deploy", "always"), on("rollback", "always")),
    ]


async def while_deploying(client: Client, agent: Agent, **of_deploy: Any) -> Submitted:
    agent.finish_by_itself(build="Success", by_default=None)
    batch = await client.submit(pipeline(agent, **of_deploy))
    await agent.wait_for("deploy")
    agent.finish_by_itself()
    return batch


async def test_success(client: Client, agent: Agent) -> None:
    agent.finish_by_itself()
    batch = await client.submit(pipeline(agent))

    await agent.told("/ended", "notify")

    assert await client.statuses(batch) == {
        "build": "Success",
        "deploy": "Success",
        "rollback": "Skipped",
        "notify": "Success",
    }
    assert agent.keys == ["build", "deploy", "notify"]


async def test_failure(client: Client, agent: Agent) -> None:
    batch = await while_deploying(client, agent)

    await agent.report("deploy", "Failure")

    await agent.told("/ended", "notify")
    assert await client.statuses(batch) == {
        "build": "Success",
        "deploy": "Failure",
        "rollback": "Success",
        "notify": "Success",
    }
    assert agent.keys == ["build", "deploy", "rollback", "notify"]


async def test_a_failure_of_the_build_fails_the_deployment_without_calling_it(client: Client, agent: Agent) -> None:
    agent.finish_by_itself(build="Failure")
    batch = await client.submit(pipeline(agent))

    await agent.told("/ended", "notify")

    assert (await client.statuses(batch))["deploy"] == "Failure"
    assert (await client.task(batch.ids["deploy"]))["failure_reason"] == "Parent task build failed"
    assert agent.keys == ["build", "rollback", "notify"]


async def test_cancel(client: Client, agent: Agent) -> None:
    batch = await while_deploying(client, agent)

    await client.expect(200, "DELETE", f"/task/{batch.ids['deploy']}")

    await agent.told("/canceled", "deploy")
    await agent.told("/ended", "notify")
    assert await client.statuses(batch) == {
        "build": "Success",
        "deploy": "Canceled",
        "rollback": "Success",
        "notify": "Success",
    }


async def test_timeout(client: Client, agent: Agent) -> None:
    batch = await while_deploying(client, agent, timeout=1)

    await agent.told("/canceled", "deploy")
    await agent.told("/ended", "deploy", "notify")

    assert await client.counts(batch) == {"failure": 1, "success": 3}
    assert (await client.task(batch.ids["deploy"]))["failure_reason"] == "Timeout"


async def test_pause_and_resume(client: Client, agent: Agent) -> None:
    batch = await while_deploying(client, agent)
    await client.expect(200, "PATCH", f"/task/pause/{batch.ids['rollback']}")
    await agent.report("deploy", "Failure")
    await agent.told("/ended", "deploy")
    assert (await client.statuses(batch))["rollback"] == "Paused"
    assert (await client.statuses(batch))["notify"] == "Waiting"

    await client.expect(200, "PATCH", f"/task/resume/{batch.ids['rollback']}")

    await agent.told("/ended", "notify")
    assert await client.counts(batch) == {"failure": 1, "success": 3}


async def test_stop(client: Client, agent: Agent) -> None:
    batch = await while_deploying(client, agent)

    await client.expect(200, "DELETE", f"/batch/{batch.id}")

    await agent.told("/canceled", "deploy")
    # A stop is no failure: nothing is rolled back and nobody notified.
    assert await client.counts(batch) == {"success": 1, "canceled": 3}
    assert agent.keys == ["build", "deploy"]


async def test_a_failed_deployment_is_retried_before_it_is_rolled_back(client: Client, agent: Agent) -> None:
    retry = {"max_retries": 1, "strategy": "fixed_delay", "delay_secs": 0}
    batch = await while_deploying(client, agent, retry=retry)

    await agent.report("deploy", "Failure")

    await agent.told("/ended", "notify")
    assert agent.keys == ["build", "deploy", "deploy", "notify"]
    assert (await client.statuses(batch))["rollback"] == "Skipped"
    deployed = await client.task(batch.ids["deploy"])
    assert (deployed["attempt"], deployed["retry_count"], len(deployed["error_history"])) == (1, 1, 1)
