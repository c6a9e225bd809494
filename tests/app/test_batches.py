"""DAGs put together in Python."""

from __future__ import annotations

import asyncio

import pytest

from perdure import Context, Duplicate, Final, Perdure


async def test_children_run_after_their_parents_and_read_their_results(app: Perdure) -> None:
    @app.task
    async def charge(amount: int) -> dict[str, int]:
        return {"paid": amount}

    @app.task
    def ship(ctx: Context) -> str:
        return f"paid {ctx.result_of('charge')['paid']}, {ctx.result_of('discount')}"

    with app.batch("order 7", context={"order": 7}) as batch:
        paid = batch.add(charge, 20)
        discount = batch.add(charge.options(key="discount"), 3)
        shipped = batch.add(ship, after=[paid, discount])
    async with app.worker():
        await batch.wait(timeout=30)

    assert await shipped.handle.result() == "paid 20, {'paid': 3}"


async def test_conditions_choose_the_branch(app: Perdure) -> None:
    @app.task
    async def validate() -> None:
        raise Final("bad rows")

    @app.task
    async def load() -> None: ...

    @app.task
    async def quarantine() -> None: ...

    @app.task
    async def report() -> None: ...

    async with app.batch() as batch:
        validated = batch.add(validate)
        loaded = batch.add(load, after=validated)
        kept = batch.add(quarantine, after=validated, on="failure")
        told = batch.add(report, after=[(loaded, "always"), (kept, "always")])
    async with app.worker():
        await batch.wait(timeout=30)

    ends = [await node.handle.status() for node in (validated, loaded, kept, told)]
    assert ends == ["Failure", "Failure", "Success", "Success"]


async def test_an_error_in_the_block_submits_nothing(app: Perdure) -> None:
    @app.task
    async def note() -> None: ...

    batch = app.batch("never")

    def change_my_mind() -> None:
        with batch:
            raise RuntimeError("changed my mind")

    node = batch.add(note)
    with pytest.raises(RuntimeError, match="changed my mind"):
        change_my_mind()
    with pytest.raises(RuntimeError, match="not submitted"):
        _ = batch.id
    with pytest.raises(RuntimeError, match="not submitted"):
        _ = node.handle


async def test_tasks_that_repeat_others_are_left_out(app: Perdure) -> None:
    @app.task
    async def note(number: int) -> int:
        return number

    once = note.options(
        metadata={"order": 7}, dedupe_strategy=[{"kind": "note", "status": "Pending", "fields": ["order"]}]
    )
    first = await once.submit(1)

    async with app.batch("again") as batch:
        repeated = batch.add(once, 2)
        child = batch.add(note, 3, after=repeated)
    with app.batch("nothing new") as empty:
        empty.add(once, 4)

    with pytest.raises(Duplicate):
        _ = repeated.handle
    with pytest.raises(RuntimeError, match="nothing was created"):
        _ = empty.id
    async with app.worker():
        assert [await handle.result(timeout=30) for handle in (first, child.handle)] == [1, 3]


def test_plain_code_waits_for_a_batch(app: Perdure) -> None:
    @app.task
    def note() -> None: ...

    with app.batch() as batch:
        only = batch.add(note.options(delay="1h"))
    with pytest.raises(TimeoutError):
        batch.wait_blocking(timeout=0.05)
    asyncio.run(only.handle.cancel())
    batch.wait_blocking(timeout=30)


async def test_tasks_of_one_kind_get_keys_of_their_own(app: Perdure) -> None:
    @app.task
    async def note(number: int) -> None: ...

    with app.batch() as batch:
        keys = [batch.add(note, number).key for number in range(3)]
        with pytest.raises(ValueError, match="note-2"):
            batch.add(note.options(key="note-2"), 4)
        with pytest.raises(ValueError, match="success, failure or always"):
            batch.add(note, 5, after=batch.add(note.options(key="x"), 1), on="sometimes")
    assert keys == ["note", "note-2", "note-3"]


async def test_webhooks_and_functions_mix(app: Perdure) -> None:
    @app.task
    async def note() -> None: ...

    with app.batch() as batch:
        first = batch.add(note)
        batch.add_task(
            {"kind": "mail", "on_start": {"params": {"url": "http://127.0.0.1:9/"}}}, after=first, on="always"
        )
    assert batch.id
