"""Handing in work through either client: large batches, keys, and what cannot be sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from perdure.client import InvalidRequest
from tests.client.asking import BOTH, Asker, asking


@pytest.fixture(params=BOTH)
async def ask(request: pytest.FixtureRequest, server_url: str) -> AsyncIterator[Asker]:
    async with asking(request.param, server_url) as asker:
        yield asker


def a_task(id: str = "a", **members: object) -> dict[str, object]:
    return {"id": id, "name": id.upper(), "kind": "etl", **members}


async def test_twenty_thousand_tasks_are_taken_at_once(ask: Asker) -> None:
    tasks = [a_task(f"t{number}", payload={"number": number}) for number in range(20_000)]
    submitted = await ask("submit", {"name": "big", "tasks": tasks})

    assert [task.key for task in submitted.tasks] == [task["id"] for task in tasks]
    assert (await ask("batch", submitted.batch_id)).total_tasks == 20_000
    assert len((await ask("dag", submitted.batch_id)).tasks) == 20_000
    listed = await ask("tasks", batch_id=submitted.batch_id, limit=1_050)
    assert [task.id for task in listed] == [task.id for task in reversed(submitted.tasks)][:1_050]


async def test_a_batch_beyond_the_limit_of_the_server_is_refused_with_advice(ask: Asker) -> None:
    tasks = [a_task(f"t{number}", payload="x" * 200_000) for number in range(100)]
    with pytest.raises(InvalidRequest, match="split the request") as refused:
        await ask("submit", tasks)
    assert refused.value.status == 413
    assert await ask("batches") == []


async def test_the_same_key_stores_once(ask: Asker) -> None:
    first = await ask("submit", a_task(), idempotency_key="order-7")
    assert await ask("submit", a_task(), idempotency_key="order-7") == first
    assert len(await ask("batches")) == 1
    with pytest.raises(InvalidRequest, match="another body"):
        await ask("submit", a_task("b"), idempotency_key="order-7")


async def test_members_of_the_batch_are_taken_from_the_call(ask: Asker) -> None:
    submitted = await ask(
        "submit", {"tasks": [a_task()], "name": "Old", "context": {"x": 1}}, name="New", namespace="web"
    )
    batch = await ask("batch", submitted.batch_id)
    assert (batch.name, batch.namespace, batch.context) == ("New", "web", {"x": 1})


async def test_nothing_to_submit_is_no_batch(ask: Asker) -> None:
    submitted = await ask("submit", [])
    assert (submitted.batch_id, submitted.tasks) == (None, [])


@pytest.mark.parametrize(
    ("tasks", "options", "message"),
    [
        (a_task(payload="\ud800"), {}, "lone surrogates"),
        (a_task(), {"idempotency_key": ""}, "idempotency_key: must have 1 to 255"),
        (a_task(), {"idempotency_key": "a\r\nX-Other: 1"}, "idempotency_key: must have 1 to 255"),
    ],
    ids=["half a character", "an empty key", "a key of two lines"],
)
async def test_what_cannot_be_sent_is_refused_here(
    ask: Asker, tasks: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message) as refused:
        await ask("submit", tasks, **options)
    assert len(refused.value.details) == 1


@pytest.mark.parametrize("name", ["a/b", "..", "a b?c#d", "%2F", "größe", "line\nbreak"])
async def test_any_name_finds_its_way_into_a_path(ask: Asker, name: str) -> None:
    await ask("pause_kind", name)
    assert [pause.name for pause in await ask("pauses")] == [name]
    await ask("resume_kind", name)
    assert await ask("pauses") == []


async def test_rules_of_a_running_batch_are_replaced(ask: Asker) -> None:
    submitted = await ask("submit", [a_task("a"), a_task("b")])
    rule = {"type": "Concurrency", "matcher": {"kind": "etl", "status": "Running", "fields": []}, "max_concurrency": 1}
    assert await ask("change_rules", submitted.batch_id, "etl", [rule]) == 2
    assert (await ask("task", submitted.tasks[0].id)).rules != []
