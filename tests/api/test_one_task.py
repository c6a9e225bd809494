"""One task: reading, reporting, counting, canceling, pausing, and its history."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.assemble import Instance
from tests.api.client import Client
from tests.api.conftest import StartTasks
from tests.api.drafts import UNKNOWN, after, called, create, task, webhook

PATHS = ["/task/{id}", "/task/{id}/attempts", "/task/{id}/deliveries", "/task/{id}/events"]
RETRY = {"max_retries": 2, "strategy": "fixed_delay", "delay_secs": 60}


async def running(client: Client, start_tasks: StartTasks, **members: Any) -> dict[str, Any]:
    """A task that its receiver has accepted."""
    (created,) = await create(client, called(**members))
    await start_tasks()
    return created


async def test_a_task_is_shown(client: Client) -> None:
    (created,) = await create(client, task())
    answered = await client.get(f"/task/{created['id']}")

    assert answered.status == 200
    assert answered.json == created


async def test_an_id_may_be_written_in_capitals(client: Client) -> None:
    (created,) = await create(client, task())

    assert (await client.get(f"/task/{created['id'].upper()}")).json == created


@pytest.mark.parametrize("id", [UNKNOWN, "x", "1", "01890a5dac96774bbcceb302099a8057", f"{UNKNOWN}0", "%00", "ö"])
@pytest.mark.parametrize("path", PATHS)
async def test_what_does_not_exist_is_not_found(client: Client, path: str, id: str) -> None:
    assert (await client.get(path.format(id=id))).status == 404


@pytest.mark.parametrize("id", [UNKNOWN, "x"])
async def test_what_does_not_exist_cannot_be_changed(client: Client, id: str) -> None:
    assert (await client.patch(f"/task/{id}", {"status": "Success"})).status == 404
    assert (await client.put(f"/task/{id}", {"new_success": 1})).status == 404
    assert (await client.delete(f"/task/{id}")).status == 404
    assert (await client.patch(f"/task/pause/{id}")).status == 404
    assert (await client.patch(f"/task/resume/{id}")).status == 404


async def test_a_success_is_reported_with_its_result(client: Client, start_tasks: StartTasks) -> None:
    created = await running(client, start_tasks)
    answered = await client.patch(f"/task/{created['id']}", {"status": "Success", "result": {"rows": 7}})

    assert answered.status == 200
    assert answered.json["status"] == "Success"
    assert answered.json["result"] == {"rows": 7}
    assert answered.json["ended_at"] is not None
    assert answered.json["locked_by"] is None
    assert (await client.get(f"/task/{created['id']}")).json == answered.json


async def test_a_failure_is_reported_with_its_reason(client: Client, start_tasks: StartTasks) -> None:
    created = await running(client, start_tasks)
    failure = {"status": "Failure", "failure_reason": "no disk", "error_class": "final", "code": "E7"}
    answered = await client.patch(f"/task/{created['id']}", failure)

    assert answered.json["status"] == "Failure"
    assert (answered.json["failure_reason"], answered.json["error_class"]) == ("no disk", "final")
    (entry,) = answered.json["error_history"]
    assert set(entry) == {"attempt", "timestamp", "error", "error_class", "http_status", "code"}
    assert (entry["attempt"], entry["error"], entry["error_class"], entry["code"]) == (0, "no disk", "final", "E7")
    assert (await client.get(f"/task/{created['id']}")).json == answered.json


async def test_a_failure_that_is_retried_shows_when(client: Client, start_tasks: StartTasks) -> None:
    created = await running(client, start_tasks, retry=RETRY)
    answered = await client.patch(f"/task/{created['id']}", {"status": "Failure", "failure_reason": "busy"})

    shown = answered.json
    assert (shown["status"], shown["retry_count"]) == ("RetryPending", 1)
    assert shown["next_retry_at"] > shown["last_updated"]
    assert [entry["error"] for entry in shown["error_history"]] == ["busy"]
    assert (await client.get(f"/task/{created['id']}")).json == shown


async def test_a_running_task_shows_who_has_it(client: Client, instance: Instance, start_tasks: StartTasks) -> None:
    created = await running(client, start_tasks)
    shown = (await client.get(f"/task/{created['id']}")).json

    assert (shown["status"], shown["locked_by"]) == ("Running", instance.id)
    assert shown["started_at"] is not None


async def test_progress_and_metadata_change_without_an_end(client: Client, start_tasks: StartTasks) -> None:
    created = await running(client, start_tasks, metadata={"a": 1, "b": {"c": 2, "d": 3}})
    answered = await client.patch(
        f"/task/{created['id']}",
        {"metadata": {"a": None, "b": {"c": None}, "e": 5}, "new_success": 3, "new_failures": 1, "priority": 9,
         "expected_count": 10},
    )  # fmt: skip

    shown = answered.json
    assert shown["status"] == "Running"
    assert shown["metadata"] == {"b": {"d": 3}, "e": 5}
    assert (shown["success"], shown["failures"], shown["priority"], shown["expected_count"]) == (3, 1, 9, 10)


async def test_an_end_is_refused_while_nobody_works_on_the_task(client: Client) -> None:
    (created,) = await create(client, task())
    answered = await client.patch(f"/task/{created['id']}", {"status": "Success"})

    assert answered.status == 409
    assert (answered.json["task_status"], answered.json["task_attempt"]) == ("Pending", 0)


async def test_a_second_end_is_refused(client: Client, start_tasks: StartTasks) -> None:
    created = await running(client, start_tasks)
    await client.patch(f"/task/{created['id']}", {"status": "Success"})
    answered = await client.patch(f"/task/{created['id']}", {"status": "Failure", "failure_reason": "late"})

    assert answered.status == 409
    assert answered.json["task_status"] == "Success"
    assert (await client.get(f"/task/{created['id']}")).json["status"] == "Success"


@pytest.mark.parametrize(
    ("body", "query"),
    [
        ({"attempt": 0}, {}),
        ({}, {"attempt": 0}),
        ({"attempt": 0}, {"attempt": 0}),
        ({}, {"attempt": ""}),
    ],
)
async def test_a_report_may_name_its_attempt_in_body_or_query(
    client: Client, start_tasks: StartTasks, body: dict[str, Any], query: dict[str, Any]
) -> None:
    created = await running(client, start_tasks)

    assert (await client.patch(f"/task/{created['id']}", {"status": "Success", **body}, **query)).status == 200


@pytest.mark.parametrize(("body", "query"), [({"attempt": 1}, {}), ({}, {"attempt": 1})])
async def test_a_report_of_another_attempt_is_refused(
    client: Client, start_tasks: StartTasks, body: dict[str, Any], query: dict[str, Any]
) -> None:
    created = await running(client, start_tasks)
    answered = await client.patch(f"/task/{created['id']}", {"status": "Success", **body}, **query)

    assert answered.status == 409
    assert answered.json["type"] == "urn:perdure:problem:stale-attempt"
    assert (answered.json["task_status"], answered.json["task_attempt"]) == ("Running", 0)
    assert (await client.get(f"/task/{created['id']}")).json["status"] == "Running"


BAD_REPORTS: list[tuple[Any, dict[str, Any], str]] = [
    ({"status": "Running"}, {}, "status: must be 'Success' or 'Failure'"),
    ({"status": "success"}, {}, "status: must be 'Success' or 'Failure'"),
    ({"status": 1}, {}, "status: must be text, is a number"),
    ({"status": "Failure"}, {}, "failure_reason: is required when status is 'Failure'"),
    ({"status": "Failure", "failure_reason": " "}, {}, "failure_reason: is required when status is 'Failure'"),
    ({"status": "Failure", "failure_reason": "a\x00"}, {}, "failure_reason: must not contain the NUL character"),
    ({"error_class": "bad"}, {}, "error_class: must be 'final', 'retryable' or 'rate_limited'"),
    ({"new_success": -1}, {}, "new_success: must be between 0 and"),
    ({"new_failures": "1"}, {}, "new_failures: must be a whole number, is text"),
    ({"expected_count": 2**40}, {}, "expected_count: must be between 0 and"),
    ({"priority": 1001}, {}, "priority: must be between -1000 and 1000"),
    ({"metadata": []}, {}, "metadata: must be an object, is an array"),
    ({"metadata": {"a": "\x00"}}, {}, "metadata: must not contain the NUL character"),
    ({"metadata": {"a": "x" * 66_000}}, {}, "metadata: must have at most 64 KiB"),
    ({"result": "x" * 300_000}, {}, "result: must have at most 256 KiB"),
    ({"attempt": -1}, {}, "attempt: must be between 0 and"),
    ({"attempt": 1.5}, {}, "attempt: must be a whole number, is 1.5"),
    ({}, {"attempt": "x"}, "attempt: must be a whole number, is 'x'"),
    ({}, {"attempt": "9" * 50}, "attempt: must be between 0 and"),
    ({}, {"attempt": [0, 1]}, "attempt: query and body name different attempts"),
    ({"attempt": 0}, {"attempt": 1}, "attempt: query and body name different attempts"),
    ([], {}, "body: must be an object, is an array"),
    (None, {}, "body: must be an object, is null"),
]


@pytest.mark.parametrize(("body", "query", "detail"), BAD_REPORTS)
async def test_a_bad_report_is_refused_before_anything_else(
    client: Client, body: Any, query: dict[str, Any], detail: str
) -> None:
    answered = await client.patch(f"/task/{UNKNOWN}", body, **query)

    assert answered.status == 400
    (found,) = answered.details
    assert found.startswith(detail)


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
@pytest.mark.parametrize("body", [b"", b"{", b'{"metadata": ' + b"[" * 100_000])
async def test_a_malformed_report_is_refused(client: Client, method: str, body: bytes) -> None:
    answered = await client.request(method, f"/task/{UNKNOWN}", body=body)

    assert answered.status == 400
    assert answered.details[0].startswith("body: ")


async def test_counts_are_queued_in_any_state(client: Client, instance: Instance, start_tasks: StartTasks) -> None:
    created = await running(client, start_tasks)
    path = f"/task/{created['id']}"
    assert (await client.put(path, {"new_success": 2})).status == 202
    await client.patch(path, {"status": "Success"})
    assert (await client.put(f"{path}?attempt=7", {"new_failures": 3, "new_success": 1, "attempt": 9})).status == 202

    await instance.engine.counters.drain()
    shown = (await client.get(path)).json
    assert (shown["status"], shown["success"], shown["failures"]) == ("Success", 3, 3)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, "new_success: give new_success or new_failures above zero"),
        ({"new_success": 0, "new_failures": 0}, "new_success: give new_success or new_failures above zero"),
        ({"new_success": -1, "new_failures": 2}, "new_success: must be between 0 and"),
        ({"new_success": 1, "new_failures": -2}, "new_failures: must be between 0 and"),
        ({"new_success": "1"}, "new_success: must be a whole number, is text"),
        ({"new_success": 10**30}, "new_success: must be between 0 and"),
        ([], "body: must be an object, is an array"),
    ],
)
async def test_bad_counts_are_refused(client: Client, body: Any, detail: str) -> None:
    (created,) = await create(client, task())
    answered = await client.put(f"/task/{created['id']}", body)

    assert answered.status == 400
    assert answered.details[0].startswith(detail)


async def test_a_task_is_canceled_once(client: Client) -> None:
    first, _ = await create(client, task("a"), task("b", dependencies=after("a")))
    answered = await client.delete(f"/task/{first['id']}")

    assert answered.status == 200
    assert (answered.json["status"], answered.json["error_history"]) == ("Canceled", [])
    again = await client.delete(f"/task/{first['id']}")
    assert (again.status, again.json["task_status"]) == (409, "Canceled")


async def test_a_task_is_paused_and_resumed(client: Client) -> None:
    (created,) = await create(client, task())
    paused = await client.patch(f"/task/pause/{created['id']}")

    assert (paused.status, paused.json["status"], paused.json["paused"]) == (200, "Paused", True)
    assert (await client.patch(f"/task/pause/{created['id']}")).status == 409
    resumed = await client.patch(f"/task/resume/{created['id']}")
    assert (resumed.status, resumed.json["status"], resumed.json["paused"]) == (200, "Pending", False)
    refused = await client.patch(f"/task/resume/{created['id']}")
    assert (refused.status, refused.json["task_status"]) == (409, "Pending")


async def test_what_has_ended_cannot_be_paused(client: Client) -> None:
    (created,) = await create(client, task())
    await client.delete(f"/task/{created['id']}")

    assert (await client.patch(f"/task/pause/{created['id']}")).status == 409
    assert (await client.patch(f"/task/resume/{created['id']}")).status == 409


async def test_attempts_are_listed_oldest_first(client: Client, start_tasks: StartTasks) -> None:
    created = await running(client, start_tasks, retry={**RETRY, "strategy": "immediate"})
    path = f"/task/{created['id']}"
    assert (await client.get(f"{path}/attempts")).json == []
    await client.patch(path, {"status": "Failure", "failure_reason": "one"})

    (attempt,) = (await client.get(f"{path}/attempts")).json
    assert set(attempt) == {
        "attempt", "instance", "started_at", "ended_at", "outcome", "trigger", "error_class", "http_status", "code",
        "message", "delay_secs", "delay_source", "charged", "next_retry_at",
    }  # fmt: skip
    assert (attempt["attempt"], attempt["outcome"], attempt["trigger"]) == (0, "failure", "explicit")
    assert (attempt["message"], attempt["delay_source"], attempt["charged"]) == ("one", "immediate", True)


async def test_events_tell_every_change(client: Client, instance: Instance, start_tasks: StartTasks) -> None:
    created = await running(client, start_tasks)
    path = f"/task/{created['id']}"
    await client.patch(path, {"status": "Success"})

    events = (await client.get(f"{path}/events")).json
    assert [(event["from_status"], event["to_status"]) for event in events] == [
        ("Pending", "Claimed"),
        ("Claimed", "Running"),
        ("Running", "Success"),
    ]
    assert {event["instance"] for event in events} == {instance.id}
    assert [event["seq"] for event in events] == sorted(event["seq"] for event in events)


async def test_deliveries_tell_of_every_webhook(client: Client, start_tasks: StartTasks) -> None:
    created = await running(client, start_tasks, on_success=[webhook(), webhook()])
    path = f"/task/{created['id']}"
    await client.patch(path, {"status": "Success"})

    deliveries = (await client.get(f"{path}/deliveries")).json
    assert [(one["trigger"], one["condition"], one["action_index"], one["status"]) for one in deliveries] == [
        ("start", "success", 0, "success"),
        ("end", "success", 0, "pending"),
        ("end", "success", 1, "pending"),
    ]
    assert [one["idempotency_key"] for one in deliveries] == [
        f"{created['id']}:start:0",
        f"{created['id']}:success:0",
        f"{created['id']}:success:0:1",
    ]
    assert deliveries[0]["next_send_at"] is None
    assert deliveries[1]["next_send_at"] is not None
