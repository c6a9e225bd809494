"""Things to submit."""

from __future__ import annotations

from typing import Any

from tests.api.client import Client

UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"


def task(id: Any = "a", **members: Any) -> dict[str, Any]:
    """The least that a task needs, and whatever else is given."""
    return {"id": id, "name": f"task {id}", "kind": "test", **members}


def webhook(url: str = "http://receiver.test/start", **params: Any) -> dict[str, Any]:
    return {"kind": "Webhook", "params": {"url": url, "verb": "Post", **params}}


def called(id: str = "a", **members: Any) -> dict[str, Any]:
    """A task that a receiver runs."""
    return task(id, on_start=webhook(), **members)


def after(*ids: str) -> list[dict[str, Any]]:
    return [{"id": id} for id in ids]


async def create(client: Client, *tasks: dict[str, Any]) -> list[dict[str, Any]]:
    """Submit tasks and return them as the server shows them."""
    answered = await client.post("/task", list(tasks))
    assert answered.status == 201, answered.body
    created: list[dict[str, Any]] = answered.json
    return created


async def create_batch(client: Client, *tasks: dict[str, Any], **members: Any) -> str:
    """Submit a batch and return its id."""
    answered = await client.post("/batch", {"tasks": list(tasks), **members})
    assert answered.status == 201, answered.body
    batch_id: str = answered.json["batch_id"]
    return batch_id


async def count_tasks(client: Client) -> int:
    return len((await client.get("/task", page_size=100)).json)
