"""What a client can ask of a real server, with and without async."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from perdure.client import (
    AsyncClient,
    Client,
    ConflictError,
    InvalidRequest,
    NotFoundError,
    ShortTask,
    TimedOut,
    Unreachable,
)

UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture
def client(server_url: str) -> Iterator[Client]:
    with Client(server_url) as client:
        yield client


@pytest.fixture
async def awaited(server_url: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server_url) as client:
        yield client


def a_task(id: str = "a", **members: object) -> dict[str, object]:
    return {"id": id, "name": id.upper(), "kind": "etl", **members}


def test_a_task_is_submitted_reported_and_read(client: Client) -> None:
    submitted = client.submit(a_task(payload={"rows": 3}), name="Nightly")
    (task,) = submitted.tasks
    assert (task.name, task.status, task.payload) == ("A", "Pending", {"rows": 3})

    client.count(task.id, new_success=2)
    canceled = client.cancel(task.id)

    assert canceled.status == "Canceled"
    assert client.task(task.id).is_over
    assert client.wait(task.id, timeout=5).status == "Canceled"
    assert [event.to_status for event in client.events(task.id)] == ["Canceled"]
    assert client.attempts(task.id) == []
    assert client.deliveries(task.id) == []
    again = client.retry(task.id, payload={"rows": 4})
    assert (again.status, again.attempt, again.payload) == ("Pending", 1, {"rows": 4})


async def test_the_same_without_blocking(awaited: AsyncClient) -> None:
    submitted = await awaited.submit([a_task("a"), a_task("b", dependencies=[{"id": "a"}])])
    assert submitted.batch_id is not None
    first, second = submitted.tasks

    assert (await awaited.pause(first.id)).status == "Paused"
    assert (await awaited.resume(first.id)).status == "Pending"
    dag = await awaited.dag(submitted.batch_id)
    assert [(link.parent_id, link.child_id) for link in dag.links] == [(first.id, second.id)]
    stopped = await awaited.stop_batch(submitted.batch_id)
    assert (stopped.canceled_pending, stopped.canceled_waiting) == (1, 1)
    batch = await awaited.wait_batch(submitted.batch_id, timeout=5)
    assert batch.status_counts["canceled"] == 2
    assert (await awaited.retry_batch(submitted.batch_id))["retried_count"] == 0


def test_lists_go_on_over_all_pages(client: Client) -> None:
    client.submit([a_task(f"t{number}") for number in range(250)])

    listed = list(client.tasks(kind="etl"))
    assert len({task.id for task in listed}) == 250
    assert all(isinstance(task, ShortTask) for task in listed)
    assert len(list(client.tasks(kind="etl", limit=120))) == 120
    assert list(client.tasks(kind="other")) == []
    assert [batch.total_tasks for batch in client.batches(limit=5)] == [250]
    assert list(client.retries()) == []
    assert client.retry_stats().pending == 0


def test_watching_shows_each_change_until_the_end(client: Client) -> None:
    submitted = client.submit([a_task("a"), a_task("b")])
    assert submitted.batch_id is not None
    seen = []
    for batch in client.watch(submitted.batch_id, timeout=20):
        seen.append(batch.status_counts["canceled"])
        if seen[-1] < 2:
            client.cancel(submitted.tasks[seen[-1]].id)
    assert seen == [0, 1, 2]


def test_kinds_and_namespaces_are_held_back_and_let_go(client: Client) -> None:
    client.pause_kind("etl")
    client.pause_namespace("acme")
    assert {(pause.scope, pause.name) for pause in client.pauses()} == {("kind", "etl"), ("namespace", "acme")}
    client.resume_kind("etl")
    client.resume_namespace("acme")
    assert client.pauses() == []


def test_a_policy_is_previewed(client: Client) -> None:
    preview = client.preview({"strategy": "fixed_delay", "delay_secs": 10, "max_retries": 2})
    assert [retry.expected_secs for retry in preview.timeline] == [10, 20]


def test_refusals_tell_what_is_wrong(client: Client) -> None:
    with pytest.raises(InvalidRequest) as invalid:
        client.submit(a_task(timeout=0))
    assert invalid.value.status == 400
    assert any("timeout" in detail for detail in invalid.value.details)
    with pytest.raises(NotFoundError):
        client.task(UNKNOWN)
    (task,) = client.submit(a_task()).tasks
    with pytest.raises(ConflictError) as conflict:
        client.report(task.id, status="Success")
    assert (conflict.value.task_status, conflict.value.task_attempt) == ("Pending", 0)


def test_waiting_ends_when_it_was_told_to(client: Client) -> None:
    (task,) = client.submit(a_task()).tasks
    with pytest.raises(TimedOut, match="Pending"):
        client.wait(task.id, timeout=0.01)


def test_a_server_that_is_not_there_is_named() -> None:
    with Client("http://127.0.0.1:9", retries=0) as client, pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        client.health()
