"""How bodies are read: within their limit, however they come."""

from __future__ import annotations

import json

import pytest

from perdure.api import build_app
from perdure.assemble import Instance
from perdure.config import Server, Settings
from tests.api.client import Client
from tests.api.drafts import UNKNOWN, count_tasks, task

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/task"), ("POST", "/batch"), ("PATCH", f"/task/{UNKNOWN}"), ("PUT", f"/task/{UNKNOWN}"),
     ("PATCH", f"/batch/{UNKNOWN}/rules")],
)  # fmt: skip
async def test_twenty_mebibytes_are_too_much(client: Client, method: str, path: str) -> None:
    answered = await client.request(method, path, body=b" " * (20 * MIB))

    assert answered.status == 413
    assert str(16 * MIB) in answered.json["detail"]


async def test_a_long_body_is_not_even_read(client: Client) -> None:
    answered = await client.request("POST", "/task", headers={"Content-Length": "9" * 30}, chunks=[])

    assert answered.status == 413


async def test_a_body_that_does_not_say_its_length_is_limited_too(client: Client) -> None:
    answered = await client.request("POST", "/task", chunks=[b" " * MIB] * 17)

    assert answered.status == 413


async def test_a_body_may_come_in_pieces(client: Client) -> None:
    body = json.dumps([task()]).encode()
    answered = await client.request("POST", "/task", chunks=[body[:7], b"", body[7:]])

    assert answered.status == 201


async def test_a_client_that_goes_away_changes_nothing(client: Client) -> None:
    answered = await client.request("POST", "/task", chunks=[])

    assert answered.details == ["body: is incomplete; the connection was closed"]
    assert await count_tasks(client) == 0


async def test_the_limit_can_be_configured(instance: Instance) -> None:
    settings = Settings(server=Server(max_body_bytes=1024))
    client = Client(build_app(instance.engine.commands, instance.store, instance.metrics, settings))

    assert (await client.post("/task", [task(name="x" * 100)])).status == 201
    assert (await client.post("/task", [task(payload="x" * 1024)])).status == 413
