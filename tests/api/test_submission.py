"""POST /task and POST /batch: what is created, and what comes back."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.api.client import Client
from tests.api.drafts import after, count_tasks, create, task, webhook

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
FULL = {
    "id", "key", "name", "kind", "namespace", "status", "timeout", "priority", "rules", "metadata", "payload",
    "actions", "created_at", "started_at", "ended_at", "last_updated", "success", "failures", "expected_count",
    "failure_reason", "result", "batch_id", "dead_end_barrier", "retry", "attempt", "retry_count",
    "next_retry_at", "error_class", "error_history", "locked_by", "paused", "parked",
}  # fmt: skip


async def test_tasks_come_back_in_full_with_their_batch(client: Client) -> None:
    answered = await client.post("/task", [task("a"), task("b", dependencies=after("a"))])

    assert answered.status == 201
    first, second = answered.json
    assert set(first) == FULL
    assert UUID7.fullmatch(first["id"])
    assert first["id"] != second["id"]
    assert first["batch_id"] == second["batch_id"] == answered.headers["x-batch-id"]
    assert (first["key"], first["status"]) == ("a", "Pending")
    assert (second["key"], second["status"]) == ("b", "Waiting")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", first["created_at"])


async def test_what_is_absent_has_its_default(client: Client) -> None:
    (created,) = await create(client, task())

    defaults = {
        "namespace": "default", "timeout": 60, "priority": 0, "rules": [], "metadata": None, "payload": None,
        "actions": [], "started_at": None, "ended_at": None, "success": 0, "failures": 0, "expected_count": None,
        "failure_reason": None, "result": None, "dead_end_barrier": False, "retry": None, "attempt": 0,
        "retry_count": 0, "next_retry_at": None, "error_class": None, "error_history": [], "locked_by": None,
        "paused": False, "parked": False,
    }  # fmt: skip
    assert created | defaults == created


async def test_null_is_the_same_as_absent(client: Client) -> None:
    members = (
        "on_start", "on_success", "on_failure", "on_cancel", "timeout", "completion", "payload", "metadata",
        "dependencies", "rules", "dedupe_strategy", "expected_count", "priority", "dead_end_barrier", "retry",
        "run_at", "delay",
    )  # fmt: skip
    (created,) = await create(client, task(**dict.fromkeys(members)))

    assert created["timeout"] == 60


async def test_everything_that_was_given_is_shown(client: Client) -> None:
    rule = {"type": "Concurrency", "matcher": {"kind": "etl", "status": "Running", "fields": ["site"]}}
    given = task(
        kind="etl",
        timeout=5,
        priority=-7,
        payload=[1, {"deep": None}, 10**40],
        metadata={"site": "ö", "n": 1.5},
        rules=[{**rule, "max_concurrency": 3}],
        expected_count=10,
        dead_end_barrier=True,
        on_start=webhook("https://a.test/x", body={"a": 1}, headers={"X-A": "b"}, timeout=3),
        on_success=[webhook()],
        on_failure=[webhook()],
        on_cancel=[webhook()],
        retry={"max_retries": 2},
    )
    (created,) = await create(client, given)

    for member in ("timeout", "priority", "payload", "metadata", "rules", "expected_count", "dead_end_barrier"):
        assert created[member] == given[member]
    assert [(one["kind"], one["trigger"], one["condition"]) for one in created["actions"]] == [
        ("Webhook", "Start", None),
        ("Webhook", "End", "Success"),
        ("Webhook", "End", "Failure"),
        ("Webhook", "Cancel", None),
    ]
    start = {"url": "https://a.test/x", "verb": "Post", "body": {"a": 1}, "headers": {"X-A": "b"}, "timeout": 3}
    assert created["actions"][0]["params"] == start
    assert created["retry"]["max_retries"] == 2
    assert len(created["retry"]) > 1, "the policy has its defaults filled in"
    assert (await client.get(f"/task/{created['id']}")).json == created


async def test_unknown_members_are_ignored(client: Client) -> None:
    await create(client, task(zzz=[1], on_start={**webhook(), "more": 1}))


async def test_dependencies_may_stand_in_any_order(client: Client) -> None:
    created = await create(client, task("last", dependencies=after("first")), task("first"))

    assert [one["status"] for one in created] == ["Waiting", "Pending"]


@pytest.mark.parametrize("path", ["/task", "/batch"])
async def test_no_tasks_create_nothing(client: Client, path: str) -> None:
    answered = await client.post(path, [] if path == "/task" else {"tasks": []})

    assert answered.status == 204
    assert "x-batch-id" not in answered.headers
    assert (await client.get("/batches")).json == []


async def test_all_duplicates_create_nothing(client: Client) -> None:
    once = task(metadata={"n": 1}, dedupe_strategy=[{"kind": "test", "status": "Pending", "fields": ["n"]}])

    assert (await client.post("/task", [once])).status == 201
    assert (await client.post("/task", [once])).status == 204
    assert await count_tasks(client) == 1


async def test_the_envelope_gives_a_batch_its_name_and_more(client: Client) -> None:
    answered = await client.post(
        "/batch",
        {"tasks": [task()], "name": "night", "namespace": "acme", "context": {"a": [1]}, "zzz": 1, "retry": None},
    )

    assert answered.status == 201
    assert set(answered.json) == {"batch_id", "tasks"}
    assert answered.headers["x-batch-id"] == answered.json["batch_id"]
    assert answered.json["tasks"][0]["namespace"] == "acme"
    batch = (await client.get(f"/batch/{answered.json['batch_id']}")).json
    assert (batch["name"], batch["namespace"], batch["context"]) == ("night", "acme", {"a": [1]})


async def test_the_content_type_does_not_matter(client: Client) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        answered = await client.post("/task", [task()], headers={"Content-Type": content_type})
        assert answered.status == 201


async def test_the_same_key_and_body_get_the_first_answer_again(client: Client) -> None:
    key = {"Idempotency-Key": "order-7"}
    first = await client.post("/task", [task()], headers=key)
    again = await client.post("/task", [task()], headers=key)

    assert (first.status, again.status) == (201, 201)
    assert again.body == first.body
    assert again.headers["x-batch-id"] == first.headers["x-batch-id"]
    assert again.headers["content-type"] == first.headers["content-type"]
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert await count_tasks(client) == 1


async def test_nothing_created_is_replayed_as_nothing_created(client: Client) -> None:
    key = {"Idempotency-Key": "empty"}

    assert (await client.post("/task", [], headers=key)).status == 204
    again = await client.post("/task", [], headers=key)
    assert (again.status, again.headers["idempotency-replayed"]) == (204, "true")
    assert (await client.post("/task", [task()], headers=key)).status == 422


async def test_a_key_with_another_request_is_refused(client: Client) -> None:
    key = {"Idempotency-Key": "k"}
    await client.post("/batch", {"tasks": [task()]}, headers=key)

    assert (await client.post("/batch", {"tasks": [task("b")]}, headers=key)).status == 422
    assert (await client.post("/task", {"tasks": [task()]}, headers=key)).status == 400
    assert (await client.post("/task", [task()], headers=key)).status == 422
    assert await count_tasks(client) == 1


async def test_a_refused_request_does_not_use_up_its_key(client: Client) -> None:
    key = {"Idempotency-Key": "k"}

    assert (await client.post("/task", [task(timeout=0)], headers=key)).status == 400
    assert (await client.post("/task", [task(timeout=1)], headers=key)).status == 201


async def test_a_key_that_is_being_processed_is_refused(client: Client) -> None:
    key = {"Idempotency-Key": "k"}
    both = await asyncio.gather(*[client.post("/task", [task()], headers=key) for _ in range(2)])

    assert sorted(answered.status for answered in both) == [201, 409]
    assert await count_tasks(client) == 1


@pytest.mark.parametrize("key", ["", " ", "a b", "ö", "x" * 256, "a\tb"])
async def test_a_key_must_be_visible_and_short(client: Client, key: str) -> None:
    answered = await client.post("/task", [task()], headers={"Idempotency-Key": key})

    assert answered.status == 400
    assert answered.details[0].startswith("Idempotency-Key: must be given once, with 1 to 255 visible")
    assert await count_tasks(client) == 0


async def test_the_longest_key_is_taken(client: Client) -> None:
    answered = await client.post("/task", [task()], headers={"Idempotency-Key": "~" * 255})

    assert answered.status == 201
