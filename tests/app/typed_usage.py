"""How the public API is typed: checked by mypy with everything else, run by nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from perdure import Batch, Context, Final, Node, Perdure, Retry, RetryAfter, TaskFunction, TaskHandle

app = Perdure("sqlite:///jobs.db")


@dataclass
class Order:
    id: int


@app.task(retry=Retry.exponential("1s", cap="1h", max_retries=8, expires_after="3d"), timeout="30s")
async def charge(order: Order, ctx: Context) -> str:
    if order.id < 0:
        raise Final("no such order", code="unknown_order")
    if ctx.attempt > 3:
        raise RetryAfter("2m")
    return f"{order.id} {ctx.idempotency_key}"


@app.task
def ship(ctx: Context) -> int:
    ctx.progress(1, 2)
    return ctx.attempt


@app.task(kind="cpu", process=True)
def compute(number: int) -> float:
    return number / 2


async def use() -> None:
    assert_type(charge, TaskFunction[str])
    assert_type(ship, TaskFunction[int])
    assert_type(compute, TaskFunction[float])
    handle = await charge.submit(Order(7))
    assert_type(handle, TaskHandle[str])
    assert_type(await handle.result(timeout=5), str)
    assert_type(await charge.options(delay="5m", priority=3).submit_many([Order(1)]), list[TaskHandle[str]])
    assert_type(ship.submit_blocking(), TaskHandle[int])
    assert_type(ship.submit_many_blocking([()]), list[TaskHandle[int]])
    assert_type(ship.submit_blocking().result_blocking(timeout=5), int)
    with app.batch("nightly", retry=Retry.fixed("1h", max_retries=2)) as batch:
        assert_type(batch, Batch)
        paid = batch.add(charge, Order(7))
        assert_type(paid, Node)
        batch.add(ship, after=[paid, (paid, "always")], on="success")
    assert_type(batch.id, str)
    result: Any = await paid.handle.result()
    print(result)
