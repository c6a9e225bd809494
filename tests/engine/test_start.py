"""Starting webhook tasks: one call each, and what the answer means."""

from __future__ import annotations

import pytest
from aiohttp import web

from perdure.config import Limits, Webhooks
from perdure.domain.states import Status
from perdure.testing import VirtualClock
from tests.engine.definitions import limit, on, task, webhook
from tests.engine.driven import HOST_URL, Driven, MakeEngine
from tests.support.receiver import ReceivedRequest, Receiver


async def test_a_task_is_called_once_and_runs(driven: Driven, receiver: Receiver) -> None:
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work"))))

    await driven.start()
    await driven.start()

    assert len(receiver.requests) == 1
    assert await driven.status(id) == "Running"
    assert await driven.events(id) == [("pending", "claimed"), ("claimed", "running")]


async def test_the_call_is_the_one_that_was_asked_for(driven: Driven, receiver: Receiver) -> None:
    action = webhook(receiver.url("/work?job=7"), verb="Put", body={"a": [1, "ü"]}, headers={"X-Team": "data"})
    id = await driven.submit_one(task(on_start=action))

    await driven.start()

    (request,) = receiver.requests
    assert (request.method, request.path) == ("PUT", "/work")
    assert request.json() == {"a": [1, "ü"]}
    assert request.headers["X-Team"] == "data"
    assert request.query == {"job": "7", "handle": f"{HOST_URL}/task/{id}?attempt=0"}
    assert request.headers["Idempotency-Key"] == f"{id}:start:0"
    assert request.headers["X-Task-Id"] == id
    assert request.headers["X-Task-Trigger"] == "start"
    assert request.headers["X-Task-Attempt"] == "0"


async def test_a_task_without_on_start_is_left_to_workers(driven: Driven) -> None:
    id = await driven.submit_one(task())

    await driven.start()

    assert await driven.status(id) == "Pending"


@pytest.mark.parametrize("completion", ["callback", "response"])
@pytest.mark.parametrize("status", [302, 400, 404, 500, 503])
async def test_what_is_not_accepted_fails(driven: Driven, receiver: Receiver, completion: str, status: int) -> None:
    receiver.answer("/work", status=status, headers={"Location": receiver.url("/elsewhere")})
    ids = await driven.submit(
        task("a", on_start=webhook(receiver.url("/work")), completion=completion),
        task("b", "a"),
        task("c", on("a", "on_failure")),
    )

    await driven.start()

    failed = await driven.task(ids["a"])
    assert failed.status is Status.FAILURE
    assert failed.failure_reason == f"on_start webhook failed: HTTP {status}"
    assert await driven.statuses(ids) == {"a": "Failure", "b": "Failure", "c": "Pending"}
    assert len(receiver.requests) == 1
    (attempt,) = await driven.attempts(ids["a"])
    assert (attempt["outcome"], attempt["trigger"], attempt["http_status"]) == ("failure", "webhook_failure", status)


async def test_a_broken_connection_fails_with_its_reason(driven: Driven, receiver: Receiver) -> None:
    receiver.answer("/work", disconnect=True)
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work"))))

    await driven.start()

    reason = (await driven.task(id)).failure_reason or ""
    assert reason.startswith("on_start webhook failed: ")
    assert "connection" in reason
    (attempt,) = await driven.attempts(id)
    assert attempt["code"] == "connection_error"


async def test_an_answer_that_takes_too_long_fails(driven: Driven, receiver: Receiver) -> None:
    receiver.answer("/work", delay=60)
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work"), timeout=0.05)))

    await driven.start()

    assert ((await driven.task(id)).failure_reason or "").startswith("on_start webhook failed: ")
    (attempt,) = await driven.attempts(id)
    assert attempt["code"] == "read_timeout"


@pytest.mark.parametrize("answer", [200, 500])
@pytest.mark.parametrize("status", ["Success", "Failure"])
async def test_a_result_reported_during_the_call_wins_over_the_late_answer(
    driven: Driven, receiver: Receiver, status: str, answer: int
) -> None:
    async def report_first(request: ReceivedRequest) -> web.Response:
        await driven.report(request.headers["X-Task-Id"], status, attempt=0)
        return web.Response(status=answer)

    receiver.answer("/work", report_first)
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work"))))

    await driven.start()

    assert await driven.status(id) == status
    assert await driven.events(id) == [("pending", "claimed"), ("claimed", status.lower())]
    assert len(await driven.attempts(id)) == 1


async def test_a_result_reported_during_the_call_wins_over_the_result_in_the_answer(
    driven: Driven, receiver: Receiver
) -> None:
    async def report_first(request: ReceivedRequest) -> web.Response:
        await driven.report(request.headers["X-Task-Id"], result="first")
        return web.json_response("second")

    receiver.answer("/work", report_first)
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work")), completion="response"))

    await driven.start()

    assert (await driven.task(id)).result == '"first"'


async def test_no_more_calls_are_under_way_than_allowed(make_engine: MakeEngine, receiver: Receiver) -> None:
    driven = await make_engine(webhooks=Webhooks(concurrency=8, per_destination=8))
    receiver.answer("/work", delay=60, times=None)
    ids = await driven.submit(*[task(f"t{number}", on_start=webhook(receiver.url("/work"))) for number in range(20)])

    while await driven.engine.start_loop.run_once():
        pass

    # A quarter is kept for deliveries.
    assert len(driven.engine.start_loop.flights) == 6
    await receiver.wait_for(6)
    assert sorted((await driven.statuses(ids)).values()) == ["Claimed"] * 6 + ["Pending"] * 14


async def test_what_is_claimed_is_what_can_be_sent_in_order_of_priority(
    make_engine: MakeEngine, receiver: Receiver
) -> None:
    driven = await make_engine(webhooks=Webhooks(concurrency=4, per_destination=4))
    receiver.answer("/work", delay=60, times=None)
    ids = await driven.submit(
        *[task(f"t{number}", on_start=webhook(receiver.url("/work")), priority=number) for number in range(6)]
    )

    await driven.engine.start_loop.run_once()

    claimed = {key for key, status in (await driven.statuses(ids)).items() if status == "Claimed"}
    assert claimed == {"t3", "t4", "t5"}


async def test_a_rule_holds_tasks_back_until_others_end(driven: Driven, receiver: Receiver) -> None:
    ids = await driven.submit(
        *[
            task(
                f"t{number}",
                on_start=webhook(receiver.url("/work")),
                metadata={"customer": number % 2},
                rules=[limit("test", 1, "customer")],
            )
            for number in range(4)
        ]
    )
    await driven.start()
    assert list((await driven.statuses(ids)).values()) == ["Running", "Running", "Pending", "Pending"]

    await driven.report(ids["t1"])
    await driven.start()

    assert list((await driven.statuses(ids)).values()) == ["Running", "Success", "Pending", "Running"]


async def test_limits_of_the_configuration_hold(make_engine: MakeEngine, receiver: Receiver) -> None:
    driven = await make_engine(limits=Limits(kinds={"test": 2}))
    ids = await driven.submit(
        *[task(f"t{number}", on_start=webhook(receiver.url("/work"))) for number in range(3)],
        task("other", on_start=webhook(receiver.url("/work")), kind="other"),
    )

    await driven.start()

    assert list((await driven.statuses(ids)).values()) == ["Running", "Running", "Pending", "Running"]


async def test_a_paused_kind_does_not_start(driven: Driven, receiver: Receiver) -> None:
    await driven.commands.pause_scope("kind", "test")
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work"))))
    await driven.start()
    assert await driven.status(id) == "Pending"

    await driven.commands.resume_scope("kind", "test")
    await driven.start()

    assert await driven.status(id) == "Running"


async def test_a_task_paused_during_the_call_runs_but_does_not_time_out(
    driven: Driven, receiver: Receiver, clock: VirtualClock
) -> None:
    async def pause_first(request: ReceivedRequest) -> web.Response:
        await driven.commands.pause(request.headers["X-Task-Id"])
        return web.Response()

    receiver.answer("/work", pause_first)
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work")), timeout=30))
    await driven.start()
    clock.advance(100)
    await driven.work()
    assert await driven.status(id) == "Paused"

    assert (await driven.report(id)).status is Status.SUCCESS
