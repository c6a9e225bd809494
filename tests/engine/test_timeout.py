"""Timeouts: a running task must give a sign of life now and then."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.config import Engine
from perdure.domain.errors import NotRunning
from perdure.testing import VirtualClock
from tests.engine.definitions import STEADY, on, task, webhook
from tests.engine.driven import Driven, MakeEngine
from tests.support.receiver import Receiver


async def running(driven: Driven, receiver: Receiver, **members: Any) -> str:
    """A task that has just begun to run, with a timeout of 30 seconds."""
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/start")), timeout=30, **members))
    await driven.start()
    return id


async def pass_time(driven: Driven, seconds: float) -> None:
    driven.clock.advance(seconds)
    await driven.work()


async def test_silence_is_a_failure(driven: Driven, receiver: Receiver) -> None:
    id = await running(driven, receiver)
    await pass_time(driven, 29.999)
    assert await driven.status(id) == "Running"

    await pass_time(driven, 0.001)

    timed_out = await driven.task(id)
    assert (timed_out.status.label, timed_out.failure_reason) == ("Failure", "Timeout")
    (attempt,) = await driven.attempts(id)
    assert (attempt["outcome"], attempt["trigger"]) == ("failure", "timeout")


async def test_the_time_before_it_ran_does_not_count(driven: Driven, receiver: Receiver, clock: VirtualClock) -> None:
    id = await driven.submit_one(task(on_start=webhook(receiver.url()), timeout=30))
    clock.advance(1000)
    await driven.start()

    await pass_time(driven, 29)

    assert await driven.status(id) == "Running"


async def test_a_timeout_is_handed_on(driven: Driven, receiver: Receiver) -> None:
    ids = await driven.submit(
        task("a", on_start=webhook(receiver.url()), timeout=30),
        task("b", "a"),
        task("c", on("a", "on_failure")),
        task("d", on("a", "always")),
    )
    await driven.start()

    await pass_time(driven, 30)

    assert await driven.statuses(ids) == {"a": "Failure", "b": "Failure", "c": "Pending", "d": "Pending"}
    assert (await driven.task(ids["b"])).failure_reason == "Parent task a failed"


async def test_the_other_side_is_told_to_stop_working(driven: Driven, receiver: Receiver) -> None:
    id = await running(
        driven,
        receiver,
        on_cancel=[webhook(receiver.url("/cancel"))],
        on_failure=[webhook(receiver.url("/failure"))],
    )

    await pass_time(driven, 30)

    keys = {request.path: request.headers["Idempotency-Key"] for request in receiver.requests[1:]}
    assert keys == {"/cancel": f"{id}:cancel:0", "/failure": f"{id}:failure:0"}


async def test_the_cancel_webhook_after_a_timeout_can_be_switched_off(
    make_engine: MakeEngine, receiver: Receiver
) -> None:
    driven = await make_engine(engine=Engine(cancel_on_timeout=False))
    await running(driven, receiver, on_cancel=[webhook(receiver.url("/cancel"))])

    await pass_time(driven, 30)

    assert receiver.requests_to("/cancel") == []


async def test_a_timeout_is_retried_by_the_policy_and_the_old_attempt_canceled(
    driven: Driven, receiver: Receiver, clock: VirtualClock
) -> None:
    id = await running(driven, receiver, retry=STEADY, on_cancel=[webhook(receiver.url("/cancel"))])

    await pass_time(driven, 30)

    waiting = await driven.task(id)
    assert (waiting.status.label, waiting.attempt) == ("RetryPending", 1)
    assert waiting.next_retry_at == clock.now() + timedelta(seconds=10)
    (request,) = receiver.requests_to("/cancel")
    assert request.headers["Idempotency-Key"] == f"{id}:cancel:0"
    assert request.headers["X-Task-Attempt"] == "0"


@pytest.mark.parametrize("sign", ["nothing", "metadata", "counts", "put"])
async def test_a_sign_of_life_moves_the_timeout(driven: Driven, receiver: Receiver, sign: str) -> None:
    id = await running(driven, receiver)
    await pass_time(driven, 20)
    match sign:
        case "nothing":
            await driven.touch(id)
        case "metadata":
            await driven.touch(id, metadata={"step": 2})
        case "counts":
            await driven.touch(id, new_success=1)
        case _:
            await driven.commands.count(id, 1, 0)
            await driven.engine.counters.run_once()
    assert (await driven.task(id)).last_updated == driven.clock.now()

    await pass_time(driven, 29)
    assert await driven.status(id) == "Running"

    await pass_time(driven, 1)
    assert await driven.status(id) == "Failure"


async def test_a_paused_task_does_not_time_out_and_starts_afresh_when_resumed(
    driven: Driven, receiver: Receiver
) -> None:
    id = await running(driven, receiver)
    await driven.commands.pause(id)
    await pass_time(driven, 1000)
    assert await driven.status(id) == "Paused"

    await driven.commands.resume(id)
    await pass_time(driven, 29)
    assert await driven.status(id) == "Running"

    await pass_time(driven, 1)
    assert await driven.status(id) == "Failure"


async def test_a_sign_of_life_of_a_paused_task_does_not_start_its_timeout(driven: Driven, receiver: Receiver) -> None:
    id = await running(driven, receiver)
    await driven.commands.pause(id)
    await driven.touch(id, metadata={"step": 2})
    await driven.commands.count(id, 1, 0)
    await driven.engine.counters.run_once()

    await pass_time(driven, 1000)

    assert await driven.status(id) == "Paused"


async def test_a_result_after_the_timeout_is_refused(driven: Driven, receiver: Receiver) -> None:
    id = await running(driven, receiver)
    await pass_time(driven, 30)

    with pytest.raises(NotRunning, match="Failure"):
        await driven.report(id)

    assert await driven.status(id) == "Failure"


async def test_many_time_out_together(driven: Driven, receiver: Receiver) -> None:
    ids = await driven.submit(
        *[task(f"t{number}", on_start=webhook(receiver.url()), timeout=1) for number in range(60)]
    )
    await driven.start()

    driven.clock.advance(1)
    await driven.engine.timeout_loop.run_once()

    assert set((await driven.statuses(ids)).values()) == {"Failure"}
