"""Delivering end and cancel webhooks: from the outbox, on their own schedule, until somebody has them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web

from perdure.config import Webhooks
from perdure.testing import VirtualClock
from tests.engine.definitions import STEADY, on, task, webhook
from tests.engine.driven import Driven, MakeEngine
from tests.engine.outage import Outage
from tests.support.receiver import ReceivedRequest, Receiver

#: The default schedule, and what jitter may make of it.
WAITS = (5, 30, 120, 600, 3600, 21600, 57600)
JITTER = 0.1
CLAIM_TIMEOUT_SECS = 90


def hooks(receiver: Receiver) -> dict[str, Any]:
    """All webhooks that a task can have, each to a path of its name."""
    return {
        "on_start": webhook(receiver.url("/start")),
        "on_success": [webhook(receiver.url("/success"))],
        "on_failure": [webhook(receiver.url("/failure"))],
        "on_cancel": [webhook(receiver.url("/cancel"))],
    }


async def succeeded(driven: Driven, receiver: Receiver) -> str:
    """A task that has just succeeded, its webhook not sent yet."""
    id = await driven.submit_one(task(**hooks(receiver)))
    await driven.start()
    await driven.report(id)
    return id


def paths(receiver: Receiver) -> list[str]:
    return [request.path for request in receiver.requests]


@pytest.mark.parametrize("status", ["Success", "Failure"])
async def test_an_ending_is_told_once(driven: Driven, receiver: Receiver, status: str) -> None:
    id = await driven.submit_one(task(**hooks(receiver)))
    await driven.start()
    await driven.report(id, status)

    await driven.deliver()
    await driven.deliver()

    assert paths(receiver) == ["/start", f"/{status.lower()}"]
    assert receiver.requests[1].headers["Idempotency-Key"] == f"{id}:{status.lower()}:0"
    assert receiver.requests[1].headers["X-Task-Trigger"] == status.lower()
    delivery = (await driven.deliveries(id))[f"{status.lower()}:0"]
    assert (delivery["status"], delivery["attempts"], delivery["last_status"]) == ("success", 1, 200)
    assert delivery["next_send_at"] is None


async def test_several_actions_have_keys_of_their_own(driven: Driven, receiver: Receiver) -> None:
    actions = [webhook(receiver.url(f"/{number}")) for number in range(3)]
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/start")), on_success=actions))
    await driven.start()
    await driven.report(id)

    await driven.deliver()

    keys = {request.path: request.headers["Idempotency-Key"] for request in receiver.requests[1:]}
    assert keys == {"/0": f"{id}:success:0", "/1": f"{id}:success:0:1", "/2": f"{id}:success:0:2"}


async def test_a_retried_failure_is_not_told(driven: Driven, receiver: Receiver) -> None:
    id = await driven.submit_one(task(**hooks(receiver), retry=STEADY))
    await driven.start()
    await driven.report(id, "Failure")

    await driven.deliver()

    assert paths(receiver) == ["/start"]


@pytest.mark.parametrize(
    ("running", "told"), [(False, []), (True, ["/cancel"])], ids=["before it started", "while it ran"]
)
async def test_a_cancel_is_told_to_those_who_were_working(
    driven: Driven, receiver: Receiver, running: bool, told: list[str]
) -> None:
    id = await driven.submit_one(task(**hooks(receiver)))
    if running:
        await driven.start()
    await driven.commands.cancel(id)

    await driven.deliver()

    assert paths(receiver)[1 if running else 0 :] == told


async def test_a_stopped_batch_is_told_to_those_who_were_working(driven: Driven, receiver: Receiver) -> None:
    ids = await driven.submit(task("a", **hooks(receiver)), task("b", "a", **hooks(receiver)))
    await driven.start()
    await driven.commands.stop_batch((await driven.task(ids["a"])).batch_id)

    await driven.deliver()

    assert paths(receiver) == ["/start", "/cancel"]
    assert receiver.requests[1].headers["Idempotency-Key"] == f"{ids['a']}:cancel:0"


async def test_tasks_that_fail_in_the_wake_of_a_parent_tell_it_too(driven: Driven, receiver: Receiver) -> None:
    ids = await driven.submit(
        task("a", on_start=webhook(receiver.url("/start"))),
        task("b", "a", on_failure=[webhook(receiver.url("/b"))]),
        task("c", on("a", "on_failure"), on_failure=[webhook(receiver.url("/c"))]),
    )
    await driven.start()
    await driven.report(ids["a"], "Failure")

    await driven.deliver()

    assert paths(receiver) == ["/start", "/b"]


async def test_tries_follow_the_schedule_and_then_end(driven: Driven, receiver: Receiver, clock: VirtualClock) -> None:
    receiver.answer("/success", status=503, times=None)
    id = await succeeded(driven, receiver)
    keys = set()
    for tries, wait in enumerate(WAITS, 1):
        await driven.deliver()
        delivery = (await driven.deliveries(id))["success:0"]
        assert (delivery["status"], delivery["attempts"], delivery["last_error"]) == ("failure", tries, "HTTP 503")
        waits = (delivery["next_send_at"] - clock.now()).total_seconds()
        assert wait * (1 - JITTER) <= waits <= wait * (1 + JITTER)
        clock.advance(waits - 0.001)
        await driven.deliver()
        assert len(receiver.requests_to("/success")) == tries, "it was sent too early"
        clock.advance(0.001)
    await driven.deliver()

    delivery = (await driven.deliveries(id))["success:0"]
    assert (delivery["status"], delivery["attempts"], delivery["next_send_at"]) == ("failure", 8, None)
    clock.advance("365d")
    await driven.deliver()
    requests = receiver.requests_to("/success")
    assert len(requests) == 8
    keys = {(request.headers["Idempotency-Key"], request.body) for request in requests}
    assert keys == {(f"{id}:success:0", b"")}
    assert await driven.status(id) == "Success"


@pytest.mark.parametrize("status", [302, 400, 404, 429, 500])
async def test_any_answer_but_success_is_tried_again(
    driven: Driven, receiver: Receiver, clock: VirtualClock, status: int
) -> None:
    receiver.answer("/success", status=status)
    id = await succeeded(driven, receiver)
    await driven.deliver()

    clock.advance(WAITS[0] * (1 + JITTER))
    await driven.deliver()

    assert (await driven.deliveries(id))["success:0"]["status"] == "success"


async def test_gone_is_final(driven: Driven, receiver: Receiver, clock: VirtualClock) -> None:
    receiver.answer("/success", status=410)
    id = await succeeded(driven, receiver)
    await driven.deliver()

    clock.advance("30d")
    await driven.deliver()

    delivery = (await driven.deliveries(id))["success:0"]
    assert (delivery["status"], delivery["attempts"], delivery["next_send_at"]) == ("failure", 1, None)


async def test_a_receiver_may_ask_for_more_time(driven: Driven, receiver: Receiver, clock: VirtualClock) -> None:
    receiver.answer("/success", status=503, headers={"Retry-After": "1000"})
    moment = format_datetime(clock.now() + timedelta(seconds=4000), usegmt=True)
    receiver.answer("/success", status=503, headers={"Retry-After": moment})
    id = await succeeded(driven, receiver)
    await driven.deliver()
    assert (await driven.deliveries(id))["success:0"]["next_send_at"] == clock.now() + timedelta(seconds=1000)

    clock.advance(1000)
    await driven.deliver()

    assert (await driven.deliveries(id))["success:0"]["next_send_at"] == clock.now() + timedelta(seconds=3000)


@pytest.mark.parametrize("asked", ["1", "-5", "soon", "99999999999999999999"])
async def test_what_a_receiver_asks_for_is_bounded(
    driven: Driven, receiver: Receiver, clock: VirtualClock, asked: str
) -> None:
    receiver.answer("/success", status=503, headers={"Retry-After": asked})
    id = await succeeded(driven, receiver)

    await driven.deliver()

    waits = ((await driven.deliveries(id))["success:0"]["next_send_at"] - clock.now()).total_seconds()
    assert WAITS[0] * (1 - JITTER) <= waits <= 86_400


async def test_a_schedule_can_be_configured(make_engine: MakeEngine, receiver: Receiver, clock: VirtualClock) -> None:
    driven = await make_engine(webhooks=Webhooks(delivery_retry=(1.0,)))
    receiver.answer("/success", status=500, times=None)
    id = await succeeded(driven, receiver)
    await driven.deliver()
    clock.advance(2)
    await driven.deliver()

    clock.advance("30d")
    await driven.deliver()

    assert (await driven.deliveries(id))["success:0"]["attempts"] == 2


async def test_while_somebody_sends_nobody_else_does(
    make_engine: MakeEngine, receiver: Receiver, clock: VirtualClock
) -> None:
    sending, other = await make_engine(), await make_engine()
    receiver.answer("/success", delay=60)
    await succeeded(sending, receiver)
    await sending.engine.deliver_loop.run_once()
    await receiver.wait_for(1, "/success")

    clock.advance(CLAIM_TIMEOUT_SECS - 1)
    await other.deliver()

    assert len(receiver.requests_to("/success")) == 1


async def test_what_was_never_settled_is_taken_over_with_the_same_key(
    make_engine: MakeEngine, receiver: Receiver, clock: VirtualClock
) -> None:
    crashed, other = await make_engine(), await make_engine()
    receiver.answer("/success", delay=60)
    id = await succeeded(crashed, receiver)
    await crashed.engine.deliver_loop.run_once()
    await receiver.wait_for(1, "/success")

    clock.advance(CLAIM_TIMEOUT_SECS)
    await other.deliver()

    first, second = receiver.requests_to("/success")
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"] == f"{id}:success:0"
    delivery = (await other.deliveries(id))["success:0"]
    assert (delivery["status"], delivery["attempts"]) == ("success", 2)


async def test_who_comes_late_does_not_overwrite_the_success_of_another(
    make_engine: MakeEngine, receiver: Receiver, clock: VirtualClock
) -> None:
    late, other = await make_engine(), await make_engine()
    answer_late = asyncio.Event()

    async def fail_late(_: ReceivedRequest) -> web.Response:
        await answer_late.wait()
        return web.Response(status=500)

    receiver.answer("/success", fail_late)
    id = await succeeded(late, receiver)
    await late.engine.deliver_loop.run_once()
    await receiver.wait_for(1, "/success")
    clock.advance(CLAIM_TIMEOUT_SECS)
    await other.deliver()

    answer_late.set()
    await late.engine.deliver_loop.flights.settled()

    delivery = (await other.deliveries(id))["success:0"]
    assert (delivery["status"], delivery["last_status"], delivery["next_send_at"]) == ("success", 200, None)


async def test_after_the_receiver_was_down_everything_is_delivered_once(
    driven: Driven, receiver: Receiver, clock: VirtualClock
) -> None:
    receiver.answer("/success", status=503, times=40)
    ids = await driven.submit(*[task(f"t{number}", **hooks(receiver)) for number in range(20)])
    await driven.start()
    for id in ids.values():
        await driven.report(id)

    for _ in range(4):
        await driven.deliver()
        clock.advance(150)

    delivered = [request.headers["Idempotency-Key"] for request in receiver.requests_to("/success")[40:]]
    assert sorted(delivered) == sorted(f"{id}:success:0" for id in ids.values())
    assert all([(await driven.deliveries(id))["success:0"]["status"] == "success" for id in ids.values()])


async def test_a_delivery_that_cannot_be_recorded_is_sent_again_with_the_same_key(
    driven: Driven, outage: Outage, receiver: Receiver, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    answer = asyncio.Event()

    async def answer_later(_: ReceivedRequest) -> web.Response:
        await answer.wait()
        return web.Response()

    receiver.answer("/success", answer_later)
    id = await succeeded(driven, receiver)
    await driven.engine.deliver_loop.run_once()
    await receiver.wait_for(1, "/success")
    await outage.begin()
    answer.set()
    await driven.engine.deliver_loop.flights.settled()
    assert "a delivery could not be recorded; it is sent again with the same key" in caplog.messages
    await outage.end()

    clock.advance(CLAIM_TIMEOUT_SECS)
    await driven.deliver()

    first, second = receiver.requests_to("/success")
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert first.body == second.body
    assert (await driven.deliveries(id))["success:0"]["status"] == "success"
