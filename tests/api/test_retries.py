"""GET /retries and GET /retries/stats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.assemble import Instance
from tests.api.client import Client
from tests.api.conftest import StartTasks
from tests.api.drafts import called, create, create_batch

COLUMNS = [
    "id", "retry_type", "target_id", "execution_id", "node_id", "retry_strategy", "max_attempts", "current_attempt",
    "initial_delay_seconds", "delay_seconds", "multiplier", "max_delay_seconds", "custom_schedule", "scheduled_at",
    "last_retried_at", "expires_at", "status", "locked_by", "locked_at", "retry_context", "error_history", "created_at",
    "updated_at", "version",
]  # fmt: skip
STATS = [
    "success_rate", "average_delay_secs", "pending", "scheduled_next_24h", "retrying", "completed", "failed",
    "exhausted",
]  # fmt: skip
EMPTY = {**dict.fromkeys(STATS, 0), "success_rate": None, "average_delay_secs": None}


def fixed(delay_secs: float, max_retries: int = 3, **fields: Any) -> dict[str, Any]:
    return {"strategy": "fixed_delay", "delay_secs": delay_secs, "max_retries": max_retries, **fields}


def weeks(*days: int, **fields: Any) -> dict[str, Any]:
    return {"strategy": "custom", "max_retries": len(days), "schedule": [f"{day}d" for day in days], **fields}


async def fail(client: Client, id: str, **report: Any) -> None:
    answered = await client.patch(f"/task/{id}", {"status": "Failure", "failure_reason": "it broke", **report})
    assert answered.status == 200, answered.body


async def fail_all(client: Client, start_tasks: StartTasks, *tasks: dict[str, Any]) -> dict[str, str]:
    """Create tasks that all fail once; their ids by key."""
    created = await create(client, *tasks)
    await start_tasks()
    for one in created:
        await fail(client, one["id"])
    return {one["key"]: one["id"] for one in created}


async def keys(client: Client, **query: Any) -> list[str]:
    answered = await client.get("/retries", **query)
    assert answered.status == 200, answered.body
    return [row["node_id"] or row["retry_type"] for row in answered.json]


def in_days(days: float) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).isoformat()


async def test_a_retry_is_shown_with_the_columns_of_the_view(client: Client, start_tasks: StartTasks) -> None:
    batch_id = await create_batch(
        client, called("a", retry=weeks(7, 14), payload={"n": 10**30}, metadata={"customer": 7})
    )
    (id,) = await start_tasks()
    await fail(client, id, code="E1", error_class="retryable")
    (row,) = (await client.get("/retries")).json
    shown = (await client.get(f"/task/{id}")).json

    assert list(row) == COLUMNS
    assert (row["id"], row["target_id"], row["execution_id"], row["node_id"]) == (id, id, batch_id, "a")
    assert (row["retry_type"], row["retry_strategy"], row["status"]) == ("node_execution", "custom", "scheduled")
    assert (row["max_attempts"], row["current_attempt"], row["delay_seconds"]) == (2, 1, None)
    assert row["custom_schedule"] == {
        "attempts": [{"attempt": 1, "delay_secs": 604_800}, {"attempt": 2, "delay_secs": 1_209_600}]
    }
    assert row["retry_context"]["metadata"] == {"customer": 7}
    assert row["error_history"] == shown["error_history"]
    assert row["error_history"][0]["code"] == "E1"
    # A file shows milliseconds.
    assert row["scheduled_at"][:23] == shown["next_retry_at"][:23]
    assert row["locked_by"] is row["locked_at"] is row["last_retried_at"] is row["expires_at"] is None


async def test_retries_are_ordered_by_their_moment_and_come_in_pages(client: Client, start_tasks: StartTasks) -> None:
    await fail_all(
        client,
        start_tasks,
        *[called(f"in {days} days", retry=weeks(days)) for days in (14, 7, 21, 1)],
        called("without a policy"),
    )

    ordered = ["in 1 days", "in 7 days", "in 14 days", "in 21 days"]
    assert await keys(client) == ordered
    assert [await keys(client, page=page, page_size=3) for page in range(3)] == [ordered[:3], ordered[3:], []]
    assert await keys(client, page_size=10**30, page=-1) == ordered


async def test_retries_are_filtered(client: Client, start_tasks: StartTasks) -> None:
    ids = await fail_all(
        client,
        start_tasks,
        called("soon", retry=fixed(60), kind="etl.load"),
        called("later", retry=weeks(7), kind="mail"),
        called("paused", retry=fixed(120), kind="mail"),
        called("over", retry=fixed(180), kind="etl"),
    )
    await client.patch(f"/task/pause/{ids['paused']}")
    await client.delete(f"/task/{ids['over']}")

    assert await keys(client, status="scheduled") == ["soon", "later"]
    assert await keys(client, status="pending") == ["paused"]
    assert set(await keys(client, status="cancelled,pending")) == {"over", "paused"}
    assert set(await keys(client, status=["cancelled", "scheduled"])) == {"over", "soon", "later"}
    assert await keys(client, status="completed") == []
    assert await keys(client, kind="mail") == ["paused", "later"]
    assert set(await keys(client, kind="etl")) == {"soon", "over"}
    assert await keys(client, kind="etl.") == ["soon"]
    assert await keys(client, kind="e%l") == []
    assert set(await keys(client, due_before=in_days(1))) == {"over", "soon", "paused"}
    assert await keys(client, due_before=in_days(8), status="scheduled", kind="a") == ["soon", "later"]
    assert await keys(client, due_before=in_days(-1)) == []
    assert len(await keys(client, due_before="9999-12-31T23:59:59Z", status="", kind="")) == 4


async def test_a_batch_that_is_run_again_is_listed_too(
    client: Client, instance: Instance, start_tasks: StartTasks
) -> None:
    batch_id = await create_batch(client, called("a", kind="etl"), retry=fixed(600), context={"day": 1})
    (id,) = await start_tasks()
    before = (await client.get(f"/batch/{batch_id}")).json
    await fail(client, id)
    await instance.engine.execution_loop.run_once()
    (row,) = (await client.get("/retries", kind="etl", status="scheduled")).json
    after = (await client.get(f"/batch/{batch_id}")).json

    assert (row["retry_type"], row["target_id"], row["execution_id"]) == ("execution", batch_id, batch_id)
    assert (row["node_id"], row["current_attempt"]) == (None, 0)
    assert row["retry_context"] == {"context": {"day": 1}}
    assert [error["error"] for error in row["error_history"]] == ["task a: it broke"]
    assert await keys(client, kind="other") == []
    assert (before["retry_state"], before["next_retry_at"]) == ("open", None)
    assert after["retry_state"] == "scheduled"
    assert after["next_retry_at"][:23] == row["scheduled_at"][:23]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"status": "Scheduled"}, "status"),
        ({"status": "scheduled,running"}, "status"),
        ({"due_before": "tomorrow"}, "due_before"),
        ({"due_before": "2030-01-01T00:00:00"}, "due_before"),
        ({"kind": "a\x00"}, "kind"),
        ({"page": "one"}, "page"),
        ({"page_size": "1.5"}, "page_size"),
    ],
)
async def test_bad_filters_are_refused(client: Client, query: dict[str, str], field: str) -> None:
    answered = await client.get("/retries", **query)

    assert answered.status == 400
    assert [detail.partition(":")[0] for detail in answered.details] == [field]


async def test_all_bad_filters_are_told_at_once(client: Client) -> None:
    answered = await client.get("/retries", status="x", due_before="y", page="z")

    assert len(answered.details) == 3


async def test_stats_of_nothing(client: Client) -> None:
    answered = await client.get("/retries/stats")

    assert answered.status == 200
    strategies = ("immediate", "exponential_backoff", "fixed_delay", "custom")
    assert answered.json == {**EMPTY, "by_strategy": dict.fromkeys(strategies, EMPTY)}
    assert (await client.get("/retries")).json == []


async def test_stats_count_what_waits_runs_and_is_over(client: Client, start_tasks: StartTasks) -> None:
    ids = await fail_all(
        client,
        start_tasks,
        *[called(key, retry=fixed(3600, 1)) for key in ("waits", "completed", "exhausted", "canceled")],
        called("final", retry=fixed(60)),
        called("parked", retry=fixed(3600, 1, on_exhausted="pause")),
        called("next week", retry=weeks(7)),
        called("paused", retry=weeks(7)),
    )
    for key in ("completed", "exhausted", "parked", "final"):
        assert (await client.post(f"/task/{ids[key]}/retry")).status == 200
    await start_tasks()
    await client.patch(f"/task/{ids['completed']}", {"status": "Success"})
    await fail(client, ids["exhausted"])
    await fail(client, ids["parked"])
    await fail(client, ids["final"], error_class="final")
    await client.patch(f"/task/pause/{ids['paused']}")
    await client.delete(f"/task/{ids['canceled']}")
    await create(client, called("never failed", retry=fixed(1)), called("no policy"))
    stats = (await client.get("/retries/stats")).json

    assert (stats["pending"], stats["scheduled_next_24h"], stats["retrying"]) == (4, 1, 0)
    assert (stats["completed"], stats["failed"], stats["exhausted"]) == (1, 2, 2)
    assert stats["success_rate"] == 33.33
    assert stats["by_strategy"]["custom"] == {**EMPTY, "pending": 2, "average_delay_secs": 604_800}
    fixed_delay = stats["by_strategy"]["fixed_delay"]
    assert (fixed_delay["pending"], fixed_delay["exhausted"], fixed_delay["success_rate"]) == (2, 2, 33.33)
    assert stats["by_strategy"]["immediate"] == EMPTY


async def test_stats_count_those_that_are_tried_right_now(client: Client, start_tasks: StartTasks) -> None:
    ids = await fail_all(client, start_tasks, called("a", retry=fixed(3600)))
    await client.post(f"/task/{ids['a']}/retry")
    assert (await client.get("/retries/stats")).json["scheduled_next_24h"] == 1
    await start_tasks()
    stats = (await client.get("/retries/stats")).json

    assert (stats["pending"], stats["scheduled_next_24h"], stats["retrying"]) == (0, 0, 1)


async def test_the_average_delay_is_that_of_all_waits(client: Client, start_tasks: StartTasks) -> None:
    await fail_all(
        client,
        start_tasks,
        called("a", retry=fixed(10)),
        called("b", retry=fixed(20)),
        called("c", retry=weeks(1)),
        called("d", retry={"strategy": "immediate", "max_retries": 1}),
    )
    stats = (await client.get("/retries/stats")).json

    assert stats["by_strategy"]["fixed_delay"]["average_delay_secs"] == 15
    assert stats["by_strategy"]["immediate"]["average_delay_secs"] == 0
    assert stats["average_delay_secs"] == (10 + 20 + 86_400) / 4
