"""Servers that misbehave on the wire, asked by both clients: each test runs with and without async."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from perdure.client import TimedOut, Unavailable, UnexpectedAnswer, Unreachable
from tests.client.asking import BOTH, Asker, asking
from tests.support.receiver import Receiver

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
HEALTHY = {"status": "ok", "database": "healthy"}
A_TASK = {"id": "a", "name": "A", "kind": "etl"}
STORED = {"batch_id": ID, "tasks": []}


@pytest.fixture(params=BOTH)
async def ask(request: pytest.FixtureRequest, receiver: Receiver) -> AsyncIterator[Asker]:
    """Asks the receiver."""
    async with asking(request.param, receiver.url(""), timeout=10, retries=2) as asker:
        yield asker


async def test_a_busy_server_is_asked_again(ask: Asker, receiver: Receiver) -> None:
    receiver.answer("/pauses", status=503, headers={"Retry-After": "0"}, times=2)
    receiver.answer("/pauses", json=[])

    assert await ask("pauses") == []
    assert len(receiver.requests) == 3


async def test_a_broken_connection_is_opened_again(ask: Asker, receiver: Receiver) -> None:
    receiver.answer("/health", disconnect=True, times=2)
    receiver.answer("/health", json=HEALTHY)

    assert (await ask("health")).status == "ok"


@pytest.mark.parametrize("warm", [False, True], ids=["new connection", "used connection"])
@pytest.mark.parametrize(
    ("operation", "arguments", "path"),
    [
        ("count", {"new_success": 1}, f"/task/{ID}"),
        ("cancel", {}, f"/task/{ID}"),
        ("report", {"status": "Success"}, f"/task/{ID}"),
        ("retry", {}, f"/task/{ID}/retry"),
    ],
)
async def test_what_may_have_been_done_is_sent_once(
    ask: Asker, receiver: Receiver, operation: str, arguments: dict[str, Any], path: str, warm: bool
) -> None:
    if warm:
        receiver.answer("/health", json=HEALTHY)
        await ask("health")
    receiver.answer(path, disconnect=True, times=None)

    with pytest.raises(Unreachable, match="not known whether it was done") as lost:
        await ask(operation, ID, **arguments)
    assert lost.value.sent
    assert len(receiver.requests_to(path)) == 1


async def test_a_submission_without_an_answer_tells_its_key(ask: Asker, receiver: Receiver) -> None:
    receiver.answer("/batch", disconnect=True, times=None)

    with pytest.raises(Unreachable, match="idempotency_key='order-7'"):
        await ask("submit", A_TASK, idempotency_key="order-7")
    keys = {request.headers["Idempotency-Key"] for request in receiver.requests}
    assert keys == {"order-7"}
    assert len(receiver.requests) == 3


async def test_a_server_that_stays_busy_is_unavailable(ask: Asker, receiver: Receiver) -> None:
    problem = {"detail": "The database does not answer.", "status": 503}
    receiver.answer("/batch", status=503, json=problem, headers={"Retry-After": "0"}, times=None)

    with pytest.raises(Unavailable, match="The database does not answer") as refused:
        await ask("submit", A_TASK)
    assert refused.value.status == 503


async def test_a_sick_server_says_so(ask: Asker, receiver: Receiver) -> None:
    receiver.answer("/health", status=503, json={"status": "degraded", "database": "unhealthy"})

    assert (await ask("health")).database == "unhealthy"
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        {"body": b"<html>Welcome</html>"},
        {"json": {"hello": "world"}},
        {"status": 302, "headers": {"Location": "/login"}},
    ],
    ids=["a page", "other JSON", "a redirection"],
)
async def test_another_kind_of_server_is_recognized(ask: Asker, receiver: Receiver, answer: dict[str, Any]) -> None:
    receiver.answer(f"/task/{ID}", **answer)

    with pytest.raises(UnexpectedAnswer, match="Is it a perdure server"):
        await ask("task", ID)


async def test_waiting_ends_in_time_though_the_server_is_away(ask: Asker, receiver: Receiver) -> None:
    receiver.answer(f"/task/{ID}", status=503, headers={"Retry-After": "50"}, times=None)

    with pytest.raises(TimedOut, match=ID):
        await ask("wait", ID, timeout=0.05)
    assert len(receiver.requests) == 1


async def test_an_answer_larger_than_a_mebibyte_is_read(ask: Asker, receiver: Receiver) -> None:
    context = "x" * (3 * 1024 * 1024)
    receiver.answer(
        "/retry/preview", json={"policy": {"x": context}, "timeline": [], "total_span_secs": 0, "warnings": []}
    )

    assert (await ask("preview", {"max_retries": 1})).policy == {"x": context}


async def test_a_body_larger_than_a_mebibyte_is_sent(ask: Asker, receiver: Receiver) -> None:
    tasks = [{**A_TASK, "id": f"{number}", "payload": "x" * 1_000} for number in range(2_000)]
    receiver.answer("/batch", status=201, json=STORED)

    assert (await ask("submit", tasks)).batch_id == ID
    assert receiver.requests[0].json() == {"tasks": tasks}


async def test_what_moves_to_a_later_page_is_listed_once(ask: Asker, receiver: Receiver) -> None:
    first, second = [summary(number) for number in range(100)], [summary(number) for number in range(95, 130)]
    receiver.answer("/batches", json=first)
    receiver.answer("/batches", json=second)

    listed = await ask("batches")
    assert [batch.batch_id for batch in listed] == [str(number) for number in range(130)]
    assert [request.query["page"] for request in receiver.requests] == ["0", "1"]


def summary(number: int) -> dict[str, Any]:
    return {
        "batch_id": str(number),
        "total_tasks": 0,
        "first_created_at": None,
        "latest_updated_at": None,
        "status_counts": {},
        "kinds": [],
        "name": None,
        "retry_of": None,
        "attempt": 0,
    }
