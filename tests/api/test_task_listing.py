"""GET /task: pages and filters."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.client import Client
from tests.api.conftest import StartTasks
from tests.api.drafts import UNKNOWN, after, called, create, create_batch, task

SHORT = {
    "id", "name", "kind", "status", "created_at", "started_at", "ended_at", "success", "failures", "expected_count",
    "batch_id", "dead_end_barrier", "priority", "attempt", "next_retry_at",
}  # fmt: skip


async def names(client: Client, **query: Any) -> list[str]:
    answered = await client.get("/task", **query)
    assert answered.status == 200, answered.body
    return [one["name"] for one in answered.json]


async def create_named(client: Client, *names: str) -> None:
    await create(client, *[task(name, name=name) for name in names])


async def test_tasks_are_short_and_newest_first(client: Client) -> None:
    await create_named(client, "first", "second")
    await create_named(client, "third")
    answered = await client.get("/task")

    assert [one["name"] for one in answered.json] == ["third", "second", "first"]
    assert set(answered.json[0]) == SHORT
    assert "x-next-cursor" not in answered.headers


@pytest.mark.parametrize(
    ("query", "length"),
    [
        ({}, 50),
        ({"page_size": 3}, 3),
        ({"page_size": 100}, 100),
        ({"page_size": 101}, 100),
        ({"page_size": 10**30}, 100),
        ({"page_size": 0}, 50),
        ({"page_size": -5}, 50),
        ({"page_size": -(10**30)}, 50),
        ({"page_size": ""}, 50),
        ({"page": 1}, 50),
        ({"page": 2}, 20),
        ({"page": 3}, 0),
        ({"page": 10**30}, 0),
        ({"page": -1}, 50),
        ({"page": 1, "page_size": 100}, 20),
        ({"page": "+1", "page_size": "0100"}, 20),
    ],
)
async def test_pages_are_clamped(client: Client, query: dict[str, Any], length: int) -> None:
    await create_named(client, *[str(number) for number in range(120)])

    assert len(await names(client, **query)) == length


@pytest.mark.parametrize("filtered", [False, True])
async def test_pages_and_cursors_walk_over_everything_once(client: Client, filtered: bool) -> None:
    batch_id = await create_batch(client, *[task(str(number), name=str(number)) for number in range(7)])
    query = {"batch_id": batch_id} if filtered else {}
    expected = [str(number) for number in reversed(range(7))]

    pages = [await names(client, page=page, page_size=3, **query) for page in range(3)]
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [name for page in pages for name in page] == expected

    found: list[str] = []
    cursor = ""
    while True:
        answered = await client.get("/task", page_size=3, cursor=cursor, **query)
        found += [one["name"] for one in answered.json]
        # What is added meanwhile does not shift what a cursor finds.
        await create_named(client, "new")
        if "x-next-cursor" not in answered.headers:
            break
        cursor = answered.headers["x-next-cursor"]
    assert found == expected


async def test_a_full_last_page_has_no_cursor(client: Client) -> None:
    await create_named(client, "a", "b")

    assert "x-next-cursor" not in (await client.get("/task", page_size=2)).headers


async def test_kind_and_name_are_found_by_any_part_to_the_letter(client: Client) -> None:
    odd = ["100%", "a_b", "axb", "Back\\slash", "It's", "ÄÖ", 'quote"d', "star*", "[x]"]
    await create(client, *[task(one, name=one, kind=f"kind {one}") for one in odd])

    for word, found in [
        ("%", ["100%"]), ("_", ["a_b"]), ("\\", ["Back\\slash"]), ("'", ["It's"]), ("back", []),
        ("Back", ["Back\\slash"]),
        ("Ö", ["ÄÖ"]), ("ö", []), ('"', ['quote"d']), ("*", ["star*"]), ("[x]", ["[x]"]), ("x", ["[x]", "axb"]),
    ]:  # fmt: skip
        assert await names(client, name=word) == found
        assert await names(client, kind=word) == found
    assert await names(client, name="' OR 1=1 --") == []


async def test_namespace_is_matched_as_a_whole(client: Client) -> None:
    await create_batch(client, task("a", name="a"), namespace="acme")
    await create_named(client, "b")

    assert await names(client, namespace="acme") == ["a"]
    assert await names(client, namespace="acm") == []
    assert await names(client, namespace="default") == ["b"]


async def test_batch_id_and_timeout_are_matched(client: Client) -> None:
    batch_id = await create_batch(client, task("a", name="a"), task("b", name="b", timeout=7))
    await create_named(client, "c")

    assert await names(client, batch_id=batch_id.upper()) == ["b", "a"]
    assert await names(client, batch_id=UNKNOWN) == []
    assert await names(client, timeout=7) == ["b"]
    assert await names(client, timeout=10**30) == []
    assert await names(client, timeout=-1) == []


async def test_metadata_is_matched_by_containment(client: Client) -> None:
    await create(
        client,
        task("a", name="a", metadata={"site": "x", "n": 1, "tags": ["p", "q"], "deep": {"k": {"l": None}}}),
        task("b", name="b", metadata={"site": "x", "n": 2}),
        task("c", name="c"),
    )

    for part, found in [
        ({}, ["b", "a"]), ({"site": "x"}, ["b", "a"]), ({"n": 1}, ["a"]), ({"n": 1.0}, ["a"]), ({"n": "1"}, []),
        ({"tags": ["q"]}, ["a"]), ({"tags": ["r"]}, []), ({"deep": {"k": {}}}, ["a"]),
        ({"deep": {"k": {"l": None}}}, ["a"]),
        ({"site": "x", "n": 3}, []), ({"nothing": None}, []),
    ]:  # fmt: skip
        assert await names(client, metadata=json.dumps(part)) == found, part


async def test_status_is_what_the_task_shows(client: Client, start_tasks: StartTasks) -> None:
    await create(client, called("r", name="r"))
    await start_tasks()
    created = await create(
        client, task("p", name="p"), task("w", name="w", dependencies=after("p")), task("x", name="x")
    )
    await client.patch(f"/task/pause/{created[2]['id']}")

    assert await names(client, status="Running") == ["r"]
    assert await names(client, status="Pending") == ["p"]
    assert await names(client, status="Waiting") == ["w"]
    assert await names(client, status="Paused") == ["x"]
    assert await names(client, status="Success") == []
    assert await names(client, status=["Running", "Paused"]) == ["x", "r"]
    assert await names(client, status="Pending, Waiting,") == ["w", "p"]
    assert await names(client, status="retry_pending,pending") == ["p"]
    assert len(await names(client, status="")) == 4


async def test_failures_are_found_by_class_and_retries_by_time(client: Client, start_tasks: StartTasks) -> None:
    retry = {"max_retries": 2, "strategy": "fixed_delay", "delay_secs": 60}
    final, retried = await create(client, called("f", name="f"), called("r", name="r", retry=retry))
    await start_tasks()
    await client.patch(f"/task/{final['id']}", {"status": "Failure", "failure_reason": "x", "error_class": "final"})
    shown = await client.patch(f"/task/{retried['id']}", {"status": "Failure", "failure_reason": "x"})
    due = shown.json["next_retry_at"]

    assert await names(client, error_class="final") == ["f"]
    assert await names(client, error_class="retryable") == ["r"]
    assert await names(client, error_class="rate_limited") == []
    assert await names(client, due_before=due) == []
    assert await names(client, due_before="2999-01-01T00:00:00Z") == ["r"]
    assert await names(client, due_before="2999-01-01T00:00:00+02:00") == ["r"]
    assert [one["name"] for one in (await client.get("/task?due_before=2999-01-01T00:00:00+02:00")).json] == ["r"]
    assert await names(client, due_before="2000-01-01T00:00:00Z") == []


async def test_filters_add_up(client: Client) -> None:
    await create(client, task("a", name="a", kind="k1", metadata={"n": 1}), task("b", name="b", kind="k2"))

    assert await names(client, kind="k", status="Pending", metadata='{"n": 1}', namespace="default") == ["a"]
    assert await names(client, kind="k2", metadata='{"n": 1}') == []


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ({"status": "Gone"}, "status: must be one of Waiting, Pending, Claimed, Running, RetryPending, Paused, "
         "Success, Failure, Canceled, Skipped, is 'Gone'"),
        ({"status": ["Pending", "running!"]}, "status: must be one of"),
        ({"metadata": "{"}, "metadata: must be JSON: "),
        ({"metadata": "[1]"}, "metadata: must be a JSON object"),
        ({"metadata": '{"a": "\\u0000"}'}, "metadata: must not contain the NUL character"),
        ({"metadata": '{"a": "\\ud800"}'}, "metadata: must be JSON: "),
        ({"metadata": '{"a": 1e999}'}, "metadata: must be JSON: "),
        ({"metadata": '{"a":' * 2000}, "metadata: is nested too deeply"),
        ({"batch_id": "x"}, "batch_id: must be a UUID"),
        ({"cursor": "x"}, "cursor: must be a UUID"),
        ({"timeout": "1m"}, "timeout: must be a whole number, is '1m'"),
        ({"page": "x"}, "page: must be a whole number, is 'x'"),
        ({"page_size": "1.5"}, "page_size: must be a whole number, is '1.5'"),
        ({"name": "a\x00"}, "name: must not contain the NUL character"),
        ({"kind": "\x00"}, "kind: must not contain the NUL character"),
        ({"namespace": "\x00"}, "namespace: must not contain the NUL character"),
        ({"name": "x" * 10_001}, "name: must have at most 10000 characters"),
        ({"error_class": "odd"}, "error_class: must be one of final, retryable, rate_limited"),
        ({"due_before": "now"}, "due_before: must be an RFC 3339 time"),
        ({"due_before": "2030-01-01T00:00:00"}, "due_before: must name its time zone"),
        ({"due_before": "0001-01-01T00:00:00+23:00"}, "due_before: must be an RFC 3339 time"),
    ],
)  # fmt: skip
async def test_bad_filters_are_refused(client: Client, query: dict[str, Any], detail: str) -> None:
    answered = await client.get("/task", **query)

    assert answered.status == 400
    (found,) = answered.details
    assert found.startswith(detail)


async def test_all_bad_filters_are_named_at_once(client: Client) -> None:
    answered = await client.get("/task", status="x", page="y", timeout="z")

    assert len(answered.details) == 3
