"""Functions that run: where they run, what they are told, and what becomes of what they return."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from dataclasses import dataclass

import pytest

from perdure import Context, Final, NoResult, Perdure
from perdure.domain.states import Status
from tests.worker.workshop import MakeWorkshop


@dataclass
class Receipt:
    order: int
    paid: bool


async def test_an_async_function_runs_in_the_event_loop_and_its_result_is_stored(
    app: Perdure, make_workshop: MakeWorkshop
) -> None:
    threads: list[threading.Thread] = []

    @app.task
    async def charge(order: int) -> Receipt:
        threads.append(threading.current_thread())
        return Receipt(order, paid=True)

    shop = await make_workshop()
    id = await shop.hand_in(charge, 7)

    await shop.work()

    task = await shop.task(id)
    assert (task.status, json.loads(task.result or "")) == (Status.SUCCESS, {"order": 7, "paid": True})
    assert await shop.events(id) == [("pending", "running"), ("running", "success")]
    (attempt,) = await shop.attempts(id)
    assert (attempt["outcome"], attempt["instance"]) == ("success", shop.instance.id)
    assert threads == [threading.current_thread()]


async def test_a_plain_function_runs_in_a_thread(app: Perdure, make_workshop: MakeWorkshop) -> None:
    threads: list[threading.Thread] = []

    @app.task
    def charge(order: int) -> int:
        threads.append(threading.current_thread())
        return order + 1

    shop = await make_workshop()
    id = await shop.hand_in(charge, 7)

    await shop.work()

    assert (await shop.task(id)).result == "8"
    assert threads != [threading.current_thread()]


async def test_nothing_returned_is_a_success_without_a_result(app: Perdure, make_workshop: MakeWorkshop) -> None:
    @app.task
    async def ping() -> None: ...

    shop = await make_workshop()
    id = await shop.hand_in(ping)

    await shop.work()

    task = await shop.task(id)
    assert (task.status, task.result, task.payload) == (Status.SUCCESS, None, None)


async def test_a_function_is_told_what_it_works_on(app: Perdure, make_workshop: MakeWorkshop) -> None:
    told: list[Context] = []

    @app.task(kind="billing.charge")
    async def charge(ctx: Context) -> None:
        told.append(ctx)

    shop = await make_workshop()
    id = await shop.hand_in(charge, name="charge order 7")

    await shop.work()

    (ctx,) = told
    task = await shop.task(id)
    assert (ctx.task_id, ctx.batch_id, ctx.kind, ctx.name) == (id, task.batch_id, "billing.charge", "charge order 7")
    assert (ctx.attempt, ctx.idempotency_key, ctx.canceled) == (0, f"{id}:start:0", False)


async def test_lines_in_the_log_name_the_task(
    app: Perdure, make_workshop: MakeWorkshop, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def charge(order: int, ctx: Context) -> None:
        ctx.log.info("charging", extra={"fields": {"order": order}})

    shop = await make_workshop()
    id = await shop.hand_in(charge, 7, name="order 7")

    with caplog.at_level(logging.INFO, "perdure.task"):
        await shop.work()

    (record,) = [record for record in caplog.records if record.name == "perdure.task"]
    assert record.getMessage() == "charging"
    assert record.__dict__["fields"] == {"task": id, "kind": "charge", "name": "order 7", "attempt": 0, "order": 7}


async def test_a_child_reads_the_results_of_its_parents(app: Perdure, make_workshop: MakeWorkshop) -> None:
    read: list[object] = []

    @app.task
    async def charge(order: int) -> Receipt:
        return Receipt(order, paid=True)

    @app.task
    async def weigh() -> float:
        return 2.5

    @app.task
    async def ship(ctx: Context) -> None:
        read.extend([ctx.result_of(charge), ctx.result_of("charge"), ctx.result_of(weigh)])

    shop = await make_workshop()
    batch = app.batch()
    batch.add(ship, after=[batch.add(charge, 7), batch.add(weigh)])
    await shop.hand_in_batch(batch)

    await shop.work()

    assert read == [Receipt(7, paid=True), {"order": 7, "paid": True}, 2.5]


async def test_parents_of_one_kind_are_told_apart_by_their_keys(app: Perdure, make_workshop: MakeWorkshop) -> None:
    read: list[object] = []

    @app.task
    async def charge(order: int) -> int:
        return order * 10

    @app.task
    async def add(ctx: Context) -> None:
        read.extend([ctx.result_of("charge"), ctx.result_of("second"), ctx.result_of(charge.options(key="second"))])
        with pytest.raises(NoResult, match=r"2 parents have the kind 'charge'; .* are: 'charge', 'second'"):
            ctx.result_of(charge)
        with pytest.raises(NoResult, match="no parents have the key 'third'"):
            ctx.result_of("third")

    shop = await make_workshop()
    batch = app.batch()
    batch.add(add, after=[batch.add(charge, 1), batch.add(charge.options(key="second"), 2)])
    ids = await shop.hand_in_batch(batch)

    await shop.work()

    assert await shop.status(ids["add"]) == "Success"
    assert read == [10, 20, 20]


async def test_a_parent_that_failed_has_no_result_and_one_that_returned_nothing_has_none(
    app: Perdure, make_workshop: MakeWorkshop
) -> None:
    @app.task
    async def fail() -> int:
        raise ValueError

    @app.task
    async def ping() -> None: ...

    @app.task
    async def clean_up(ctx: Context) -> None:
        assert ctx.result_of("ping") is None
        with pytest.raises(NoResult, match="the parent 'fail' has no result: it is Failure"):
            ctx.result_of(fail)

    shop = await make_workshop()
    batch = app.batch()
    batch.add(clean_up, after=[batch.add(fail), batch.add(ping)], on="always")
    ids = await shop.hand_in_batch(batch)

    await shop.work()

    assert await shop.statuses(ids) == {"fail": "Failure", "ping": "Success", "clean_up": "Success"}


async def test_no_more_run_at_once_than_the_worker_has_places(app: Perdure, make_workshop: MakeWorkshop) -> None:
    go_on = asyncio.Event()

    @app.task
    async def wait() -> None:
        await go_on.wait()

    shop = await make_workshop(concurrency=3)
    ids = [await shop.hand_in(wait) for _ in range(5)]

    await shop.begin()
    await shop.begin()

    assert [await shop.status(id) for id in ids] == ["Running"] * 3 + ["Pending"] * 2
    go_on.set()
    await shop.work()
    assert {await shop.status(id) for id in ids} == {"Success"}


async def test_a_worker_leaves_alone_what_it_does_not_know(app: Perdure, make_workshop: MakeWorkshop) -> None:
    other = Perdure(settings=app.settings())

    @other.task
    async def elsewhere() -> None: ...

    @app.task
    async def here() -> None: ...

    shop = await make_workshop()
    ids = [await shop.hand_in(elsewhere), await shop.hand_in(here)]

    await shop.work()

    assert [await shop.status(id) for id in ids] == ["Pending", "Success"]


async def test_a_worker_without_functions_takes_nothing(app: Perdure, make_workshop: MakeWorkshop) -> None:
    other = Perdure(settings=app.settings())

    @other.task
    async def elsewhere() -> None: ...

    shop = await make_workshop()
    id = await shop.hand_in(elsewhere)

    await shop.work()

    assert await shop.status(id) == "Pending"


async def test_paused_kinds_rest(app: Perdure, make_workshop: MakeWorkshop) -> None:
    @app.task
    async def ping() -> None: ...

    shop = await make_workshop()
    await shop.commands.pause_scope("kind", "ping")
    id = await shop.hand_in(ping)

    await shop.work()
    assert await shop.status(id) == "Pending"

    await shop.commands.resume_scope("kind", "ping")
    await shop.work()
    assert await shop.status(id) == "Success"


async def test_rules_of_tasks_limit_what_a_worker_runs(app: Perdure, make_workshop: MakeWorkshop) -> None:
    running = 0
    most = 0

    @app.task(
        metadata={"customer": "a"},
        rules=[{"matcher": {"kind": "call", "status": "Running", "fields": ["customer"]}, "max_concurrency": 2}],
    )
    async def call() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    shop = await make_workshop()
    ids = [await shop.hand_in(call) for _ in range(6)]

    await shop.work()

    assert {await shop.status(id) for id in ids} == {"Success"}
    assert most == 2


@pytest.mark.parametrize("fails", [False, True], ids=["success", "failure"])
async def test_the_last_progress_is_written_with_the_end(
    app: Perdure, make_workshop: MakeWorkshop, fails: bool
) -> None:
    @app.task
    async def copy(ctx: Context) -> None:
        for row in range(10):
            ctx.progress(row + 1, 10)
        if fails:
            raise Final("the disk is full")

    shop = await make_workshop()
    id = await shop.hand_in(copy)
    await shop.work()

    task = await shop.task(id)
    assert (task.status.label, task.success, task.expected_count) == ("Failure" if fails else "Success", 10, 10)
