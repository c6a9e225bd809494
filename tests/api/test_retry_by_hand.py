"""POST /task/{id}/retry and POST /batch/{id}/retry."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Client
from tests.api.conftest import StartTasks
from tests.api.drafts import UNKNOWN, after, called, create, create_batch, task, webhook

POLICY = {"strategy": "fixed_delay", "delay_secs": 600, "max_retries": 2}


async def fail(client: Client, id: str, **report: Any) -> None:
    answered = await client.patch(f"/task/{id}", {"status": "Failure", "failure_reason": "it broke", **report})
    assert answered.status == 200, answered.body


async def failed_task(client: Client, start_tasks: StartTasks, **members: Any) -> str:
    (created,) = await create(client, called(**members))
    await start_tasks()
    await fail(client, created["id"])
    id: str = created["id"]
    return id


async def test_a_failed_task_starts_anew(client: Client, start_tasks: StartTasks) -> None:
    id = await failed_task(client, start_tasks)
    answered = await client.post(f"/task/{id}/retry")

    assert answered.status == 200
    assert (answered.json["status"], answered.json["attempt"], answered.json["retry_count"]) == ("Pending", 1, 0)
    assert answered.json["failure_reason"] is None
    assert [error["attempt"] for error in answered.json["error_history"]] == [0]
    assert await start_tasks() == [id]


async def test_a_wait_is_dropped(client: Client, start_tasks: StartTasks) -> None:
    id = await failed_task(client, start_tasks, retry=POLICY)
    answered = await client.post(f"/task/{id}/retry")

    assert (answered.json["status"], answered.json["attempt"], answered.json["retry_count"]) == ("Pending", 1, 1)
    assert answered.json["next_retry_at"] is None


async def test_what_ended_in_its_wake_is_put_back(client: Client, start_tasks: StartTasks) -> None:
    first, second = await create(client, called("a"), called("b", dependencies=after("a")))
    await start_tasks()
    await fail(client, first["id"])
    assert (await client.get(f"/task/{second['id']}")).json["status"] == "Failure"
    await client.post(f"/task/{first['id']}/retry")
    child = (await client.get(f"/task/{second['id']}")).json

    assert (child["status"], child["attempt"]) == ("Waiting", 1)


async def test_a_body_changes_the_task_first(client: Client, start_tasks: StartTasks) -> None:
    id = await failed_task(client, start_tasks, payload=1, metadata={"old": 1}, timeout=60)
    change = {
        "payload": {"fixed": True},
        "metadata": {"new": 2},
        "timeout": 120,
        "on_start": webhook("http://receiver.test/other"),
        "retry": {"max_retries": 4},
        "unknown": "is ignored",
    }
    answered = await client.post(f"/task/{id}/retry", change)

    assert answered.status == 200
    shown = answered.json
    assert (shown["payload"], shown["metadata"], shown["timeout"]) == ({"fixed": True}, {"new": 2}, 120)
    assert shown["actions"][0]["params"]["url"] == "http://receiver.test/other"
    assert shown["retry"]["max_retries"] == 4


@pytest.mark.parametrize("body", [b"", b"  \n", b"null", b"{}", b'{"payload": null}'])
async def test_without_a_change_the_task_stays_as_it_was(client: Client, start_tasks: StartTasks, body: bytes) -> None:
    id = await failed_task(client, start_tasks, payload=1)
    answered = await client.post(f"/task/{id}/retry", body=body)

    assert (answered.status, answered.json["payload"]) == (200, 1)


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"timeout": 0}, ["timeout"]),
        ({"timeout": "long", "metadata": 7}, ["metadata", "timeout"]),
        ({"retry": {"max_retries": 0, "typo": 1}}, ["retry.typo", "retry.max_retries"]),
        ({"retry": "unknown"}, ["retry"]),
        ({"on_start": {"params": {"url": "ftp://x"}}}, ["on_start.params.url"]),
        ([], ["body"]),
    ],
)
async def test_a_bad_change_is_refused_and_nothing_happens(
    client: Client, start_tasks: StartTasks, change: Any, fields: list[str]
) -> None:
    id = await failed_task(client, start_tasks)
    answered = await client.post(f"/task/{id}/retry", change)

    assert answered.status == 400
    assert [detail.partition(":")[0] for detail in answered.details] == fields
    assert (await client.get(f"/task/{id}")).json["status"] == "Failure"


async def test_malformed_json_is_refused(client: Client) -> None:
    assert (await client.post(f"/task/{UNKNOWN}/retry", body=b"{")).status == 400


async def test_a_task_that_does_not_exist(client: Client) -> None:
    assert (await client.post(f"/task/{UNKNOWN}/retry")).status == 404
    assert (await client.post("/task/none/retry")).status == 404


async def test_a_task_that_is_not_over_cannot_be_retried(client: Client, start_tasks: StartTasks) -> None:
    pending, running, waiting = await create(
        client, task("pending"), called("running"), task("waiting", dependencies=after("running"))
    )
    await start_tasks()
    for id, label in ((pending["id"], "Pending"), (running["id"], "Running"), (waiting["id"], "Waiting")):
        answered = await client.post(f"/task/{id}/retry")
        assert (answered.status, answered.json["task_status"], answered.json["task_attempt"]) == (409, label, 0)

    await client.patch(f"/task/{running['id']}", {"status": "Success"})
    assert (await client.post(f"/task/{running['id']}/retry")).status == 409


async def test_everything_that_failed_in_a_batch_is_retried(client: Client, start_tasks: StartTasks) -> None:
    batch_id = await create_batch(
        client, called("fails"), called("child", dependencies=after("fails")), called("fails too"), called("is fine")
    )
    ids = {one["name"]: one["id"] for one in (await client.get("/task", batch_id=batch_id)).json}
    await start_tasks()
    await fail(client, ids["task fails"])
    await fail(client, ids["task fails too"])
    await client.patch(f"/task/{ids['task is fine']}", {"status": "Success"})
    answered = await client.post(f"/batch/{batch_id.upper()}/retry")

    assert answered.status == 200
    assert answered.json == {"batch_id": batch_id, "retried_count": 3}
    counts = (await client.get(f"/batch/{batch_id}")).json["status_counts"]
    assert (counts["pending"], counts["waiting"], counts["success"], counts["failure"]) == (2, 1, 1, 0)
    assert (await client.post(f"/batch/{batch_id}/retry")).json["retried_count"] == 0


async def test_a_batch_that_does_not_exist(client: Client) -> None:
    assert (await client.post(f"/batch/{UNKNOWN}/retry")).status == 404
    assert (await client.post("/batch/none/retry")).status == 404
