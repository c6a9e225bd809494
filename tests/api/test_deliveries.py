"""Sending webhooks again that were given up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.assemble import Instance
from perdure.store.interface import Session
from perdure.store.verbs.deliver import Room, Settled, settle_deliveries, take_deliveries
from tests.api.client import Client
from tests.api.conftest import StartTasks
from tests.api.drafts import UNKNOWN, called, create, webhook


async def _deliveries(client: Client, task_id: str) -> dict[str, dict[str, Any]]:
    rows = (await client.get(f"/task/{task_id}/deliveries")).json
    return {row["trigger"]: row for row in rows}


@pytest.fixture
async def ended(client: Client, start_tasks: StartTasks) -> str:
    """A task whose end webhook waits to be sent."""
    (created,) = await create(client, called(on_success=[webhook()]))
    await start_tasks()
    await client.patch(f"/task/{created['id']}", {"status": "Success"})
    task_id: str = created["id"]
    return task_id


async def take(instance: Instance) -> list[Any]:
    async def work(session: Session) -> list[Any]:
        return await take_deliveries(session, Room(10, 10), session.now + timedelta(seconds=90))

    return await instance.store.write(work)


async def settle(instance: Instance, row: Any, status: str) -> None:
    settled = Settled(row["id"], row["attempts"], "success", status, 200 if status == "success" else 500, None, None)
    assert await instance.store.write(lambda session: settle_deliveries(session, [settled])) == [True]


async def test_one_that_was_given_up_is_sent_again(client: Client, instance: Instance, ended: str) -> None:
    (row,) = await take(instance)
    await settle(instance, row, "failure")
    assert (await _deliveries(client, ended))["end"]["next_send_at"] is None
    assert await take(instance) == []

    answered = await client.post(f"/deliveries/{row['id']}/retry")
    assert answered.status == 200
    assert answered.json == (await _deliveries(client, ended))["end"]
    assert answered.json["status"] == "failure"
    assert answered.json["next_send_at"] is not None
    (again,) = await take(instance)
    assert again["idempotency_key"] == row["idempotency_key"]
    assert again["attempts"] == 2


async def test_one_that_waits_may_be_hurried(client: Client, ended: str) -> None:
    delivery = (await _deliveries(client, ended))["end"]
    for _ in range(2):
        answered = await client.post(f"/deliveries/{delivery['id']}/retry")
        assert (answered.status, answered.json["status"], answered.json["attempts"]) == (200, "pending", 0)


async def test_one_under_way_is_left_alone(client: Client, instance: Instance, ended: str) -> None:
    (row,) = await take(instance)
    answered = await client.post(f"/deliveries/{row['id']}/retry")
    assert answered.status == 409
    assert "being sent right now" in answered.json["detail"]
    assert await take(instance) == []
    assert (await _deliveries(client, ended))["end"]["attempts"] == 1


async def test_one_that_arrived_is_not_sent_twice(client: Client, instance: Instance, ended: str) -> None:
    (row,) = await take(instance)
    await settle(instance, row, "success")
    answered = await client.post(f"/deliveries/{row['id']}/retry")
    assert answered.status == 409
    assert "accepted already" in answered.json["detail"]
    assert (await _deliveries(client, ended))["end"]["next_send_at"] is None
    assert await take(instance) == []


async def test_on_start_is_retried_with_its_task(client: Client, ended: str) -> None:
    start = (await _deliveries(client, ended))["start"]
    answered = await client.post(f"/deliveries/{start['id']}/retry")
    assert answered.status == 409
    assert "retrying its task" in answered.json["detail"]


@pytest.mark.parametrize("id", [UNKNOWN, "nonsense"])
async def test_an_unknown_one_is_not_found(id: str, client: Client) -> None:
    answered = await client.post(f"/deliveries/{id}/retry")
    assert answered.status == 404
    assert "There is no delivery" in answered.json["detail"]
