"""Instances that vanish: what they had claimed is taken over, under the same key."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from perdure.domain.states import Status
from perdure.testing import VirtualClock
from tests.engine.definitions import task, webhook
from tests.engine.driven import Driven, MakeEngine, eventually
from tests.engine.outage import Outage
from tests.support.receiver import ReceivedRequest, Receiver

CLAIM_TIMEOUT_SECS = 90


async def sent_and_never_settled(crashed: Driven, receiver: Receiver) -> str:
    """A task whose call has reached the receiver, from an instance that never hears the answer."""
    receiver.answer("/work", delay=60)
    id = await crashed.submit_one(task(on_start=webhook(receiver.url("/work"), body={"a": 1})))
    await crashed.engine.start_loop.run_once()
    await receiver.wait_for(1)
    return id


async def test_a_claim_is_respected_while_it_lasts(
    make_engine: MakeEngine, receiver: Receiver, clock: VirtualClock
) -> None:
    crashed, other = await make_engine(), await make_engine()
    id = await sent_and_never_settled(crashed, receiver)

    clock.advance(CLAIM_TIMEOUT_SECS - 1)
    await other.work()

    assert await other.status(id) == "Claimed"
    assert len(receiver.requests) == 1


async def test_a_claim_that_ran_out_is_repeated_with_the_same_key_and_body(
    make_engine: MakeEngine, receiver: Receiver, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    crashed, other = await make_engine(), await make_engine()
    id = await sent_and_never_settled(crashed, receiver)

    clock.advance(CLAIM_TIMEOUT_SECS)
    await other.work()

    assert any(message.startswith("claims ran out") for message in caplog.messages)
    taken_over = await other.task(id)
    assert (taken_over.status, taken_over.attempt) == (Status.RUNNING, 0)
    assert taken_over.locked_by == other.instance.id
    first, second = receiver.requests
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"] == f"{id}:start:0"
    assert (first.body, first.query) == (second.body, second.query)
    start = (await other.deliveries(id))["start:0"]
    assert (start["status"], start["attempts"]) == ("success", 2)


async def test_a_call_that_was_received_before_the_crash_is_not_repeated(
    make_engine: MakeEngine, receiver: Receiver, clock: VirtualClock
) -> None:
    late, other = await make_engine(), await make_engine()
    answer = asyncio.Event()

    async def accept_late(_: ReceivedRequest) -> web.Response:
        await answer.wait()
        return web.Response()

    receiver.answer("/work", accept_late)
    id = await late.submit_one(task(on_start=webhook(receiver.url("/work"))))
    await late.engine.start_loop.run_once()
    await receiver.wait_for(1)
    # The claim is taken back before the answer comes, and the task claimed again after it.
    clock.advance(CLAIM_TIMEOUT_SECS)
    await other.engine.reap_loop.run_once()
    assert await other.status(id) == "Pending"
    answer.set()
    await late.engine.start_loop.flights.settled()

    await other.start()

    assert await other.status(id) == "Running"
    assert len(receiver.requests) == 1
    skips = 'webhook_idempotent_skips_total{trigger="start"} 1.0'
    assert skips in other.instance.metrics.render()[0].decode()


async def test_a_refusal_that_comes_late_leaves_a_newer_call_of_the_same_instance_alone(
    driven: Driven, receiver: Receiver, clock: VirtualClock
) -> None:
    answers = [asyncio.Event(), asyncio.Event()]

    async def refuse_late(_: ReceivedRequest) -> web.Response:
        await answers[0].wait()
        return web.Response(status=500)

    async def accept_later(_: ReceivedRequest) -> web.Response:
        await answers[1].wait()
        return web.Response()

    receiver.answer("/work", refuse_late)
    receiver.answer("/work", accept_later)
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work"))))
    await driven.engine.start_loop.run_once()
    await receiver.wait_for(1)
    # The claim runs out, and the instance that lost it takes the task up again.
    clock.advance(CLAIM_TIMEOUT_SECS)
    await driven.engine.reap_loop.run_once()
    await driven.engine.start_loop.run_once()
    await receiver.wait_for(2)

    answers[0].set()
    await eventually(lambda: is_in_flight(driven, 1))
    assert await driven.status(id) == "Claimed"
    assert (await driven.deliveries(id))["start:0"]["status"] == "pending"

    answers[1].set()
    await driven.engine.start_loop.flights.settled()
    assert await driven.status(id) == "Running"
    assert (await driven.deliveries(id))["start:0"]["status"] == "success"


async def is_in_flight(driven: Driven, count: int) -> bool:
    return len(driven.engine.start_loop.flights) == count


async def test_a_result_reported_after_the_claim_ran_out_counts_once_it_runs_again(
    make_engine: MakeEngine, receiver: Receiver, clock: VirtualClock
) -> None:
    crashed, other = await make_engine(), await make_engine()
    id = await sent_and_never_settled(crashed, receiver)
    clock.advance(CLAIM_TIMEOUT_SECS)
    await other.work()

    await other.report(id, attempt=0)

    assert await other.status(id) == "Success"


async def test_an_answer_waits_for_a_database_that_is_away(driven: Driven, outage: Outage, receiver: Receiver) -> None:
    answer = asyncio.Event()

    async def accept_later(_: ReceivedRequest) -> web.Response:
        await answer.wait()
        return web.Response()

    receiver.answer("/work", accept_later)
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work"))))
    await driven.engine.start_loop.run_once()
    await receiver.wait_for(1)
    await outage.begin()
    answer.set()
    tried = asyncio.create_task(driven.engine.start_loop.flights.settled())
    # The answer has arrived and could not be written.
    await driven.engine.writer.idle()

    await outage.end()
    await tried

    assert await driven.status(id) == "Running"
    assert len(receiver.requests) == 1


async def test_two_instances_share_the_work_without_doing_it_twice(make_engine: MakeEngine, receiver: Receiver) -> None:
    here, there = await make_engine(), await make_engine()
    ids = await here.submit(*[task(f"t{number}", on_start=webhook(receiver.url())) for number in range(200)])

    await asyncio.gather(here.start(), there.start())

    keys = [request.headers["Idempotency-Key"] for request in receiver.requests]
    assert sorted(keys) == sorted(f"{id}:start:0" for id in ids.values())
    assert set((await here.statuses(ids)).values()) == {"Running"}
