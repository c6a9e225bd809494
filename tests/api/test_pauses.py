"""Pausing whole kinds and namespaces."""

from __future__ import annotations

import pytest

from tests.api.client import Client
from tests.api.conftest import StartTasks
from tests.api.drafts import called, create, create_batch


@pytest.mark.parametrize("scope", ["kind", "namespace"])
async def test_a_scope_is_paused_and_resumed(client: Client, scope: str) -> None:
    paused = await client.patch(f"/{scope}/pause/etl")
    assert (paused.status, paused.json) == (200, {"scope": scope, "name": "etl", "paused": True})
    assert (await client.patch(f"/{scope}/pause/etl")).status == 409

    (entry,) = (await client.get("/pauses")).json
    assert (entry["scope"], entry["name"]) == (scope, "etl")
    assert entry["created_at"].endswith("Z")

    resumed = await client.patch(f"/{scope}/resume/etl")
    assert (resumed.status, resumed.json) == (200, {"scope": scope, "name": "etl", "paused": False})
    assert (await client.patch(f"/{scope}/resume/etl")).status == 409
    assert (await client.get("/pauses")).json == []


async def test_tasks_of_what_is_paused_do_not_start(client: Client, start_tasks: StartTasks) -> None:
    await create(client, called("a", kind="etl"))
    await create_batch(client, called("b"), namespace="acme")
    await client.patch("/kind/pause/etl")
    await client.patch("/namespace/pause/acme")
    assert await start_tasks() == []

    await client.patch("/kind/resume/etl")
    assert len(await start_tasks()) == 1
    await client.patch("/namespace/resume/acme")
    assert len(await start_tasks()) == 1


async def test_a_name_may_have_any_characters(client: Client) -> None:
    assert (await client.patch("/kind/pause/a%2Fb%20%C3%B6%3F%0A")).json["name"] == "a/b ö?\n"
    assert (await client.get("/pauses")).json[0]["name"] == "a/b ö?\n"
    assert (await client.patch("/kind/resume/a/b%20%C3%B6%3F%0A")).status == 200


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("", "must not be empty"),
        ("%20", "must not be empty"),
        ("x" * 101, "must have at most 100 characters"),
        ("%00", "must not contain the NUL character"),
    ],
)
@pytest.mark.parametrize("path", ["/kind/pause", "/namespace/resume"])
async def test_a_bad_name_is_refused(client: Client, path: str, name: str, detail: str) -> None:
    answered = await client.patch(f"{path}/{name}")

    assert answered.status == 400
    assert detail in answered.details[0]
