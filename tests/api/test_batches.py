"""Batches: totals, stopping, rules, listing, and the graph."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Client
from tests.api.conftest import StartTasks
from tests.api.drafts import UNKNOWN, after, called, create, create_batch, task

STATUSES = {
    "waiting", "pending", "claimed", "running", "retry_pending", "paused", "success", "failure", "canceled", "skipped",
}  # fmt: skip


def counts(**given: int) -> dict[str, int]:
    return {**dict.fromkeys(STATUSES, 0), **given}


async def test_a_batch_adds_up_its_tasks(client: Client, start_tasks: StartTasks) -> None:
    batch_id = await create_batch(
        client,
        called("a", expected_count=10, kind="etl"),
        task("b", expected_count=5, dependencies=after("a")),
        task("c", expected_count=0),
        name="night",
        namespace="acme",
        context=[1],
    )
    (running,) = await start_tasks()
    await client.patch(f"/task/{running}", {"new_success": 4, "new_failures": 2})
    paused = (await client.get("/task", batch_id=batch_id, status="Pending")).json[0]["id"]
    await client.patch(f"/task/pause/{paused}")
    answered = await client.get(f"/batch/{batch_id.upper()}")

    assert answered.status == 200
    batch = answered.json
    assert set(batch) >= {
        "batch_id", "name", "namespace", "total_tasks", "status_counts", "total_success", "total_failures",
        "total_expected", "kinds", "first_created_at", "latest_updated_at", "created_at", "context", "retry",
        "retry_of", "attempt", "retry_state", "next_retry_at",
    }  # fmt: skip
    assert (batch["batch_id"], batch["name"], batch["namespace"], batch["context"]) == (batch_id, "night", "acme", [1])
    assert batch["status_counts"] == counts(running=1, waiting=1, paused=1)
    assert sum(batch["status_counts"].values()) == batch["total_tasks"] == 3
    assert (batch["total_success"], batch["total_failures"], batch["total_expected"]) == (4, 2, 15)
    assert batch["kinds"] == ["etl", "test"]
    assert (batch["retry"], batch["retry_of"], batch["attempt"]) == (None, None, 0)
    assert batch["first_created_at"] == batch["created_at"] < batch["latest_updated_at"]


async def test_the_expected_total_is_unknown_if_any_task_lacks_a_count(client: Client) -> None:
    batch_id = await create_batch(client, task("a", expected_count=10), task("b"))

    assert (await client.get(f"/batch/{batch_id}")).json["total_expected"] is None


async def test_the_retry_policy_of_a_batch_is_shown(client: Client) -> None:
    batch_id = await create_batch(client, task(), retry={"max_retries": 2})

    assert (await client.get(f"/batch/{batch_id}")).json["retry"]["max_retries"] == 2


@pytest.mark.parametrize("id", [UNKNOWN, "x"])
async def test_an_unknown_batch_is_not_found(client: Client, id: str) -> None:
    rules = {"kind": "test", "rules": []}

    assert (await client.get(f"/batch/{id}")).status == 404
    assert (await client.delete(f"/batch/{id}")).status == 404
    assert (await client.patch(f"/batch/{id}/rules", rules)).status == 404


async def test_stopping_tells_what_was_canceled_and_can_be_repeated(client: Client, start_tasks: StartTasks) -> None:
    batch_id = await create_batch(
        client, called("r"), called("s"), task("p"), task("w", dependencies=after("p")), task("x")
    )
    first, _ = await start_tasks()
    await client.patch(f"/task/{first}", {"status": "Success"})
    pending = (await client.get("/task", batch_id=batch_id, status="Pending")).json[0]["id"]
    await client.patch(f"/task/pause/{pending}")
    answered = await client.delete(f"/batch/{batch_id}")

    assert answered.status == 200
    stopped = {
        "batch_id": batch_id, "canceled_waiting": 1, "canceled_pending": 1, "canceled_claimed": 0,
        "canceled_running": 1, "canceled_retry_pending": 0, "canceled_paused": 1, "already_terminal": 1,
    }  # fmt: skip
    assert answered.json == stopped
    again = await client.delete(f"/batch/{batch_id}")
    nothing = {name: 0 for name in stopped if name.startswith("canceled")}
    assert again.json == {"batch_id": batch_id, **nothing, "already_terminal": 5}
    assert (await client.get("/task", status="Canceled")).json[0]["batch_id"] == batch_id


def rule(limit: int = 2, **members: Any) -> dict[str, Any]:
    return {"matcher": {"kind": "test", "fields": ["site"]}, "max_concurrency": limit, **members}


async def test_rules_of_a_kind_are_replaced(client: Client) -> None:
    site = {"site": 1}
    batch_id = await create_batch(client, task("a", metadata=site), task("b", metadata=site), task("c", kind="other"))
    answered = await client.patch(f"/batch/{batch_id}/rules", {"kind": "test", "rules": [rule()]})

    assert answered.json == {"batch_id": batch_id, "kind": "test", "updated_count": 2}
    changed = (await client.get("/task", kind="test")).json[0]["id"]
    assert (await client.get(f"/task/{changed}")).json["rules"] == [
        {
            "type": "Concurrency",
            "matcher": {"kind": "test", "status": "Running", "fields": ["site"]},
            "max_concurrency": 2,
        }
    ]


async def test_rules_that_a_task_cannot_have_change_nothing(client: Client) -> None:
    batch_id = await create_batch(client, task("a", metadata={"site": 1}), task("b"))
    answered = await client.patch(f"/batch/{batch_id}/rules", {"kind": "test", "rules": [rule()]})

    assert answered.status == 400
    assert "'b'" in answered.details[0]
    assert "metadata has no field 'site'" in answered.details[0]
    for short in (await client.get("/task")).json:
        assert (await client.get(f"/task/{short['id']}")).json["rules"] == []


@pytest.mark.parametrize(
    ("body", "details"),
    [
        ({}, ["kind: is required", "rules: is required"]),
        ({"kind": "k", "rules": {}}, ["rules: must be an array, is an object"]),
        ({"kind": " ", "rules": []}, ["kind: must not be empty"]),
        ({"kind": "\x00", "rules": []}, ["kind: must not contain the NUL character"]),
        ({"kind": "k", "rules": [{}]}, ["rules[0].matcher: is required"]),
        ({"kind": "k", "rules": [rule(0)]}, ["rules[0].max_concurrency: must be between 1 and 1000000000, is 0"]),
    ],
)
async def test_bad_rules_are_refused_even_if_nobody_gets_them(client: Client, body: Any, details: list[str]) -> None:
    batch_id = await create_batch(client, task())
    answered = await client.patch(f"/batch/{batch_id}/rules", body)

    assert answered.status == 400
    assert answered.details == details


async def listed(client: Client, **query: Any) -> list[str | None]:
    answered = await client.get("/batches", **query)
    assert answered.status == 200, answered.body
    return [summary["name"] for summary in answered.json]


async def test_batches_are_summed_up_newest_first(client: Client) -> None:
    await create_batch(client, task("a"), task("b", kind="etl", dependencies=after("a")), name="one")
    second = await create_batch(client, task(), name="two")
    answered = await client.get("/batches")

    newest, oldest = answered.json
    assert set(newest) == {
        "batch_id", "total_tasks", "first_created_at", "latest_updated_at", "status_counts", "kinds", "name",
        "retry_of", "attempt",
    }  # fmt: skip
    assert (newest["batch_id"], newest["name"], newest["total_tasks"]) == (second, "two", 1)
    assert (oldest["kinds"], oldest["status_counts"]) == (["etl", "test"], counts(waiting=1, pending=1))


async def test_batches_are_paged(client: Client) -> None:
    for number in range(5):
        await create_batch(client, task(), name=str(number))

    assert await listed(client, page_size=2) == ["4", "3"]
    assert await listed(client, page=2, page_size=2) == ["0"]
    assert await listed(client, page=-1, page_size=0) == ["4", "3", "2", "1", "0"]


async def test_batches_are_found_by_what_is_in_them(client: Client, start_tasks: StartTasks) -> None:
    await create_batch(client, called("a", name="load 100%", kind="etl"), task("b"), name="Night")
    await start_tasks()
    await create_batch(client, task("a", name="x", kind="mail"), name="Day")
    (nameless,) = await create(client, task("a", name="100 percent"))

    assert await listed(client, kind="et") == ["Night"]
    assert await listed(client, name="igh") == ["Night"]
    assert await listed(client, name="night") == []
    assert await listed(client, name="100%") == ["Night"]
    assert await listed(client, name="100") == [None, "Night"]
    assert await listed(client, status="Running") == ["Night"]
    assert await listed(client, status=["Running", "Success"]) == ["Night"]
    assert await listed(client, status="Pending") == [None, "Day", "Night"]
    assert await listed(client, status="Success") == []
    created_at = nameless["created_at"]
    assert await listed(client, created_after=created_at) == [None]
    assert await listed(client, created_before=created_at) == ["Day", "Night"]
    assert await listed(client, created_before=created_at, kind="mail", status="Pending", name="Day") == ["Day"]


@pytest.mark.parametrize(
    "query", [{"status": "x"}, {"created_after": "x"}, {"created_before": "2030"}, {"page": "x"}, {"name": "\x00"}]
)
async def test_bad_batch_filters_are_refused(client: Client, query: dict[str, str]) -> None:
    answered = await client.get("/batches", **query)

    assert answered.status == 400
    assert answered.details[0].startswith(f"{next(iter(query))}: ")


async def test_the_graph_has_tasks_in_order_and_links(client: Client) -> None:
    first, second, third = await create(
        client,
        task("a"),
        task("b", dependencies=[{"id": "a", "requires_success": False}]),
        task("c", dependencies=[{"id": "a"}, {"id": "b", "condition": "on_failure"}]),
    )
    answered = await client.get(f"/dag/{first['batch_id']}")

    assert [one["name"] for one in answered.json["tasks"]] == ["task a", "task b", "task c"]
    links = {(link["parent_id"], link["child_id"]): link for link in answered.json["links"]}
    assert len(answered.json["links"]) == len(links) == 3
    assert links[first["id"], second["id"]]["condition"] == "always"
    assert links[first["id"], second["id"]]["requires_success"] is False
    assert links[first["id"], third["id"]]["condition"] == "on_success"
    assert links[first["id"], third["id"]]["requires_success"] is True
    assert links[second["id"], third["id"]]["condition"] == "on_failure"


async def test_a_large_graph_is_complete(client: Client) -> None:
    names = [str(number) for number in range(1200)]
    batch_id = await create_batch(
        client, *[task(name, dependencies=after(*([names[0]] if name != "0" else []))) for name in names]
    )
    graph = (await client.get(f"/dag/{batch_id}")).json

    assert (len(graph["tasks"]), len(graph["links"])) == (1200, 1199)


async def test_the_graph_of_an_unknown_batch_is_empty(client: Client) -> None:
    assert (await client.get(f"/dag/{UNKNOWN}")).json == {"tasks": [], "links": []}
    assert (await client.get("/dag/x")).status == 404
