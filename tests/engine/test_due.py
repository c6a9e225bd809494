"""What waits for its moment: delayed tasks and retries start when they are due, neither sooner nor later."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.domain.errors import StaleAttempt
from perdure.domain.states import Status
from perdure.testing import VirtualClock
from tests.engine.definitions import STEADY, task, webhook
from tests.engine.driven import Driven
from tests.support.receiver import Receiver


async def pass_time(driven: Driven, seconds: float) -> None:
    driven.clock.advance(seconds)
    await driven.work()


@pytest.mark.parametrize("when", [{"delay": 90}, {"delay": "1m30s"}, {"run_at": "2030-01-01T00:01:30Z"}])
async def test_a_delayed_task_starts_when_it_is_due(
    driven: Driven, receiver: Receiver, clock: VirtualClock, when: dict[str, Any]
) -> None:
    id = await driven.submit_one(task(on_start=webhook(receiver.url()), **when))
    assert await driven.engine.due_loop.next_moment() == clock.now() + timedelta(seconds=90)
    await pass_time(driven, 89.999)
    assert await driven.status(id) == "Pending"

    await pass_time(driven, 0.001)

    assert await driven.status(id) == "Running"
    assert await driven.engine.due_loop.next_moment() is None


async def test_a_moment_that_has_passed_is_now(driven: Driven, receiver: Receiver) -> None:
    id = await driven.submit_one(task(on_start=webhook(receiver.url()), run_at="2029-12-31T23:59:59Z"))

    await driven.start()

    assert await driven.status(id) == "Running"


async def test_a_delayed_task_waits_for_its_parents_too(driven: Driven, receiver: Receiver) -> None:
    start = webhook(receiver.url())
    ids = await driven.submit(
        task("early", on_start=start),
        task("late", on_start=start, timeout=600),
        task("a", "early", on_start=start, delay=60),
        task("b", "late", on_start=start, delay=60),
    )
    await driven.start()
    await driven.report(ids["early"])
    await pass_time(driven, 59)
    assert await driven.statuses(ids) == {"early": "Success", "late": "Running", "a": "Pending", "b": "Waiting"}

    await pass_time(driven, 1)
    assert await driven.statuses(ids) == {"early": "Success", "late": "Running", "a": "Running", "b": "Waiting"}


async def test_a_delay_that_is_over_when_the_parent_ends_holds_nothing_up(driven: Driven, receiver: Receiver) -> None:
    start = webhook(receiver.url())
    ids = await driven.submit(task("a", on_start=start, timeout=600), task("b", "a", on_start=start, delay=60))
    await driven.start()
    await pass_time(driven, 100)

    await driven.report(ids["a"])
    await driven.work()

    assert await driven.status(ids["b"]) == "Running"


async def test_a_paused_delayed_task_does_not_start(driven: Driven, receiver: Receiver) -> None:
    id = await driven.submit_one(task(on_start=webhook(receiver.url()), delay=60))
    await driven.commands.pause(id)
    await pass_time(driven, 100)
    assert await driven.status(id) == "Paused"

    await driven.commands.resume(id)
    await driven.work()

    assert await driven.status(id) == "Running"


async def test_a_retry_starts_when_it_is_due_with_a_key_of_its_own(
    driven: Driven, receiver: Receiver, clock: VirtualClock
) -> None:
    receiver.answer("/start", status=503, times=2)
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/start")), retry=STEADY))
    await driven.start()
    assert await driven.engine.due_loop.next_moment() == clock.now() + timedelta(seconds=10)
    await pass_time(driven, 9.999)
    assert (await driven.status(id), len(receiver.requests)) == ("RetryPending", 1)
    await pass_time(driven, 0.001)
    assert (await driven.status(id), len(receiver.requests)) == ("RetryPending", 2)
    await pass_time(driven, 19.999)
    assert len(receiver.requests) == 2

    await pass_time(driven, 0.001)

    assert await driven.status(id) == "Running"
    keys = [request.headers["Idempotency-Key"] for request in receiver.requests]
    assert keys == [f"{id}:start:0", f"{id}:start:1", f"{id}:start:2"]
    assert [request.query["handle"].rpartition("=")[2] for request in receiver.requests] == ["0", "1", "2"]


async def test_a_retry_begins_anew_but_keeps_what_was_counted(
    driven: Driven, receiver: Receiver, clock: VirtualClock
) -> None:
    id = await driven.submit_one(task(on_start=webhook(receiver.url()), retry=STEADY))
    await driven.start()
    await driven.touch(id, new_success=5)
    created_at = (await driven.task(id)).created_at
    await driven.report(id, "Failure")
    clock.advance(10)

    await driven.engine.due_loop.run_once()

    pending = await driven.task(id)
    assert (pending.status, pending.attempt, pending.retry_count) == (Status.PENDING, 1, 1)
    assert (pending.started_at, pending.ended_at, pending.failure_reason, pending.next_retry_at) == (None,) * 4
    assert (pending.success, pending.created_at, pending.last_updated) == (5, created_at, clock.now())


async def test_children_of_a_retrying_task_are_untouched(driven: Driven, receiver: Receiver) -> None:
    start = webhook(receiver.url())
    ids = await driven.submit(
        task("a", on_start=start, retry={**STEADY, "max_retries": 2}, on_failure=[webhook(receiver.url("/failure"))]),
        task("b", "a"),
        task("c", {"id": "a", "condition": "on_failure"}),
    )
    for _ in range(2):
        await driven.start()
        await driven.report(ids["a"], "Failure")
        await driven.deliver()
        assert await driven.statuses(ids) == {"a": "RetryPending", "b": "Waiting", "c": "Waiting"}
        await pass_time(driven, 100)
    assert receiver.requests_to("/failure") == []

    await driven.report(ids["a"], "Failure")
    await driven.deliver()

    assert await driven.statuses(ids) == {"a": "Failure", "b": "Failure", "c": "Pending"}
    assert [attempt["outcome"] for attempt in await driven.attempts(ids["a"])] == ["failure"] * 3
    assert len(receiver.requests_to("/failure")) == 1


async def test_a_result_of_an_earlier_attempt_is_refused(driven: Driven, receiver: Receiver) -> None:
    id = await driven.submit_one(task(on_start=webhook(receiver.url()), retry=STEADY))
    await driven.start()
    await driven.report(id, "Failure", attempt=0)
    await pass_time(driven, 10)

    with pytest.raises(StaleAttempt, match="attempt 1"):
        await driven.report(id, attempt=0)

    assert await driven.status(id) == "Running"
    assert (await driven.report(id, attempt=1)).status is Status.SUCCESS


async def test_a_requested_wait_is_kept_and_not_charged(
    driven: Driven, receiver: Receiver, clock: VirtualClock
) -> None:
    receiver.answer("/start", status=429, headers={"Retry-After": "120"})
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/start")), retry=STEADY))

    await driven.start()

    waiting = await driven.task(id)
    assert waiting.next_retry_at == clock.now() + timedelta(seconds=120)
    assert (waiting.attempt, waiting.retry_count) == (1, 0)


async def test_a_cancel_while_waiting_for_a_retry_is_definitive(driven: Driven, receiver: Receiver) -> None:
    id = await driven.submit_one(
        task(on_start=webhook(receiver.url()), retry=STEADY, on_cancel=[webhook(receiver.url("/cancel"))])
    )
    await driven.start()
    await driven.report(id, "Failure")
    await driven.commands.cancel(id)

    await pass_time(driven, 1000)

    assert await driven.status(id) == "Canceled"
    assert len(receiver.requests) == 1


async def test_a_pause_while_waiting_for_a_retry_keeps_its_moment(driven: Driven, receiver: Receiver) -> None:
    id = await driven.submit_one(task(on_start=webhook(receiver.url()), retry=STEADY))
    await driven.start()
    await driven.report(id, "Failure")
    due_at = (await driven.task(id)).next_retry_at
    await driven.commands.pause(id)
    await pass_time(driven, 5)
    resumed = await driven.commands.resume(id)
    assert (resumed.status, resumed.next_retry_at) == (Status.RETRY_PENDING, due_at)
    await driven.commands.pause(id)
    await pass_time(driven, 100)
    assert await driven.status(id) == "Paused"

    await driven.commands.resume(id)
    await driven.work()

    assert await driven.status(id) == "Running"
