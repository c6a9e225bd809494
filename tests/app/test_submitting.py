"""Calls become tasks: one, many, from plain and from async code, and they run."""

from __future__ import annotations

import asyncio

import pytest

from perdure import Context, Duplicate, Final, Invalid, NoResult, Perdure, Retry, TaskHandle, TaskNotSuccessful


async def test_a_call_is_submitted_run_and_its_result_read(app: Perdure) -> None:
    @app.task
    async def double(number: int) -> int:
        return 2 * number

    handle = await double.submit(21)
    assert await handle.status() == "Pending"
    async with app.worker():
        assert await handle.result(timeout=30) == 42
    task = await handle.task()
    assert (task.kind, task.name, task.status) == ("double", "double", "success")


async def test_the_function_itself_can_still_be_called(app: Perdure) -> None:
    @app.task
    async def double(number: int) -> int:
        """Twice the number."""
        return 2 * number

    assert await double(4) == 8
    assert double.__doc__ == "Twice the number."


async def test_many_calls_are_stored_together(app: Perdure) -> None:
    @app.task
    async def note(number: int, text: str = "") -> None: ...

    handles = await note.submit_many([(number, "x") for number in range(10_000)])
    assert len({handle.id for handle in handles}) == 10_000
    assert len({handle.batch_id for handle in handles}) == 1
    assert await note.submit_many([]) == []


async def test_one_bad_call_among_many_refuses_all(app: Perdure) -> None:
    @app.task
    async def note(number: int) -> None: ...

    with pytest.raises(Invalid):
        await note.submit_many([1, "two", 3])


def test_plain_code_submits_too(app: Perdure) -> None:
    @app.task
    def note(number: int) -> None: ...

    handle = note.submit_blocking(1)
    assert asyncio.run(handle.status()) == "Pending"


def test_plain_code_submits_many_and_waits_for_results(app: Perdure) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    async def work(handles: list[TaskHandle[int]]) -> None:
        async with app.worker():
            for handle in handles:
                await handle.wait(timeout=30)

    handles = double.submit_many_blocking([1, 2, 3])
    with pytest.raises(TimeoutError):
        handles[0].result_blocking(timeout=0.05)
    asyncio.run(work(handles))

    assert [handle.result_blocking(timeout=30) for handle in handles] == [2, 4, 6]
    assert handles[0].wait_blocking().status == "success"
    assert double.submit_many_blocking([]) == []


async def test_what_repeats_a_task_is_not_submitted(app: Perdure) -> None:
    matcher = {"kind": "note", "status": "Pending", "fields": ["order"]}

    @app.task(dedupe_strategy=[matcher], metadata={"order": 7})
    async def note(number: int) -> None: ...

    (only,) = await note.submit_many([1, 2, 3])
    with pytest.raises(Duplicate, match="repeats one that exists"):
        await note.submit(4)
    with pytest.raises(Duplicate):
        note.submit_blocking(5)
    assert await note.submit_many([6]) == []
    assert await only.status() == "Pending"
    assert (await note.options(metadata={"order": 8}).submit(7)).id != only.id


async def test_blocking_inside_a_running_loop_does_no_harm(app: Perdure) -> None:
    @app.task
    async def note(number: int) -> None: ...

    handle = note.submit_blocking(1)
    assert await handle.status() == "Pending"


async def test_options_change_one_submission(app: Perdure) -> None:
    @app.task(retry=Retry.fixed("10s", max_retries=3), timeout="2m", priority=5)
    async def note(number: int) -> None: ...

    plain = await (await note.submit(1)).task()
    other = await (await note.options(delay="1h", timeout=30, metadata={"a": 1}, name="N").submit(1)).task()

    assert (plain.timeout, plain.priority, plain.delayed) == (120, 5, False)
    assert '"fixed_delay"' in (plain.retry_policy or "")
    assert (other.timeout, other.priority, other.delayed, other.name) == (30, 5, True, "N")


async def test_a_failure_is_told_with_its_reason(app: Perdure) -> None:
    @app.task
    async def charge() -> None:
        raise Final("the card is blocked")

    handle = await charge.submit()
    async with app.worker():
        with pytest.raises(TaskNotSuccessful, match="the card is blocked") as told:
            await handle.result(timeout=30)
    assert told.value.status == "Failure"


async def test_a_result_of_another_version_of_the_function_is_told_as_such(app: Perdure, database_url: str) -> None:
    @app.task
    async def charge() -> str:
        return "seven"

    with Perdure(database_url) as newer:

        @newer.task(kind="charge")
        async def charge_cents() -> int:
            return 7

        handle = await charge_cents.submit()
        async with app.worker():
            with pytest.raises(NoResult, match="'charge' is not what the function returns now: Expected `int`"):
                await handle.result(timeout=30)
        assert (await handle.task()).result == '"seven"'


async def test_a_waiting_task_is_canceled_and_tried_again_by_hand(app: Perdure) -> None:
    @app.task
    async def note(ctx: Context) -> int:
        return ctx.attempt

    handle = await note.options(delay="1h").submit()
    await handle.cancel()
    assert await handle.status() == "Canceled"
    await handle.retry()
    async with app.worker():
        assert await handle.result(timeout=30) == 1


async def test_waiting_ends_when_it_was_told_to(app: Perdure) -> None:
    @app.task
    async def note() -> None: ...

    with pytest.raises(TimeoutError):
        await (await note.submit()).result(timeout=0.05)


@pytest.mark.parametrize(
    "policy",
    [
        Retry.immediate(3),
        Retry.fixed("90s", max_retries=2, jitter="full"),
        Retry.exponential("1s", cap="1h", max_retries=8, expires_after="3d"),
        Retry.exponential(max_retries=2, multiplier=3, on_exhausted="pause"),
        Retry.custom(["1m", "7d", 30], retry_on=[ConnectionError, "5xx", 503]),
        Retry.never(),
    ],
    ids=repr,
)
async def test_every_policy_of_python_is_one_of_the_server(app: Perdure, policy: Retry) -> None:
    @app.task(retry=policy)
    async def note() -> None: ...

    task = await (await note.submit()).task()
    assert task.retry_policy is not None


def test_what_can_never_work_is_refused_at_once(app: Perdure) -> None:
    with pytest.raises(TypeError, match="no_such"):
        Retry.immediate(1, no_such=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="whole seconds"):

        @app.task(timeout=1.5)
        async def hurried() -> None: ...

    with pytest.raises(TypeError, match="process"):

        @app.task(process=True)
        async def apart() -> None: ...

    @app.task
    async def twice() -> None: ...

    with pytest.raises(ValueError, match="twice"):
        app.task(twice.function)
