"""The orders of a web shop. Each is a DAG:

    charge ── reserve ── ship ── notify
                           └─ on failure: refund ── notify

The payment service is down for the first two calls; nobody has to care. No carrier delivers to Atlantis; that order is
refunded.

    python examples/order_dag.py

With DATABASE_URL it runs on that database, else on a file that is gone afterwards.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from itertools import count
from tempfile import TemporaryDirectory

from perdure import Context, Final, NoResult, Perdure, Retry, TaskHandle

app = Perdure()


@dataclass(frozen=True)
class Order:
    number: int
    item: str
    cents: int
    country: str


@dataclass(frozen=True)
class Receipt:
    payment: str
    cents: int


class PaymentService:
    """Somebody else's: down for two calls, then fine. The same key is never charged twice."""

    def __init__(self) -> None:
        self._calls = count(1)
        self._charged: dict[str, Receipt] = {}

    async def charge(self, cents: int, key: str) -> Receipt:
        if next(self._calls) <= 2:
            raise ConnectionError("the payment service does not answer")
        return self._charged.setdefault(key, Receipt(f"pay-{len(self._charged) + 1}", cents))


payments = PaymentService()


@app.task(retry=Retry.exponential("1s", cap="1m", max_retries=8, expires_after="3d"), timeout="30s")
async def charge(order: Order, ctx: Context) -> Receipt:
    print(f"order {order.number}: charge {order.cents / 100:.2f}, attempt {ctx.attempt}")
    return await payments.charge(order.cents, key=ctx.task_id)  # the task's id is the same in every attempt


@app.task
async def reserve(order: Order) -> str:
    print(f"order {order.number}: reserve {order.item}")
    return f"shelf-{order.number}"


@app.task
async def ship(order: Order, ctx: Context) -> str:
    if order.country == "Atlantis":
        raise Final("no carrier delivers to Atlantis", code="no_carrier")
    print(f"order {order.number}: ship from {ctx.result_of(reserve)}")
    return f"parcel-{order.number}"


@app.task
async def refund(order: Order, ctx: Context) -> Receipt:
    receipt = ctx.result_of(charge)
    print(f"order {order.number}: refund {receipt.payment}")
    return Receipt(receipt.payment, -receipt.cents)


@app.task
async def notify(order: Order, ctx: Context) -> str:
    try:
        message = f"{ctx.result_of(ship)} is on its way"
    except NoResult:
        message = "we are sorry, you have your money back"
    print(f"order {order.number}: tell the customer: {message}")
    return message


async def place(order: Order) -> TaskHandle[str]:
    """Store all of an order, or nothing; the handle leads to its last task."""
    async with app.batch(f"order {order.number}") as batch:
        paid = batch.add(charge, order)
        reserved = batch.add(reserve, order, after=paid)
        shipped = batch.add(ship, order, after=reserved)
        refunded = batch.add(refund, order, after=[(paid, "success"), (shipped, "failure")])
        told = batch.add(notify, order, after=[shipped, refunded], on="always")
    return told.handle


async def main() -> None:
    async with app, app.worker():
        for order in (Order(1, "teapot", 2900, "Norway"), Order(2, "trident", 9900, "Atlantis")):
            last = await place(order)
            print(f"order {order.number} is over: {await last.result(timeout=60)}")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        os.environ.setdefault("DATABASE_URL", f"sqlite:///{folder}/orders.db")
        asyncio.run(main())
