"""A slow destination keeps its own places busy and no others: what is claimed is sent at once, wherever it goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from perdure.config import Webhooks
from tests.engine.definitions import task, webhook
from tests.engine.driven import MakeEngine
from tests.support.receiver import ReceivedRequest, Receiver

MANY = 60
#: Of 40 places 30 are for starts and 10 for deliveries; of the 20 that one destination gets, 15 and 5.
WEBHOOKS = Webhooks(concurrency=40)
STARTS, DELIVERIES = 15, 5


@pytest.fixture
def answer() -> asyncio.Event:
    """The slow receiver answers once this is set."""
    return asyncio.Event()


@pytest.fixture
async def slow(answer: asyncio.Event) -> AsyncIterator[Receiver]:
    async def accept_later(_: ReceivedRequest) -> web.Response:
        await answer.wait()
        return web.Response()

    async with Receiver() as slow:
        slow.answer("/hook", accept_later, times=None)
        yield slow


async def test_starts_of_others_leave_while_a_destination_is_slow(
    make_engine: MakeEngine, receiver: Receiver, slow: Receiver, answer: asyncio.Event
) -> None:
    driven = await make_engine(webhooks=WEBHOOKS)
    first = await driven.submit(
        *[task(f"s{number}", on_start=webhook(slow.url("/hook")), priority=5) for number in range(MANY)]
    )
    others = await driven.submit(*[task(f"f{number}", on_start=webhook(receiver.url())) for number in range(MANY)])
    await driven.engine.start()

    await receiver.wait_for(MANY)
    await slow.wait_for(STARTS)

    # Nothing is claimed that is not on its way.
    assert sorted((await driven.statuses(first)).values()) == ["Claimed"] * STARTS + ["Pending"] * (MANY - STARTS)
    assert len(slow.requests) == STARTS
    answer.set()
    await slow.wait_for(MANY)
    await driven.engine.stop()
    assert set((await driven.statuses({**first, **others})).values()) == {"Running"}


async def test_ends_are_told_to_others_while_a_destination_is_slow(
    make_engine: MakeEngine, receiver: Receiver, slow: Receiver, answer: asyncio.Event
) -> None:
    driven = await make_engine(webhooks=WEBHOOKS)

    async def end(url: str) -> None:
        ids = await driven.submit(
            *[task(f"t{number}", on_start=webhook(receiver.url("/start"))) | told(url) for number in range(MANY)]
        )
        await driven.start()
        await asyncio.gather(*[driven.report(id) for id in ids.values()])

    def told(url: str) -> dict[str, object]:
        return {"on_success": [webhook(url)]}

    await end(slow.url("/hook"))
    await end(receiver.url("/ended"))
    await driven.engine.start()

    await receiver.wait_for(MANY, "/ended")
    await slow.wait_for(DELIVERIES)
    assert len(slow.requests) == DELIVERIES
    answer.set()
    await slow.wait_for(MANY)
    await driven.engine.stop()
    assert len({request.headers["Idempotency-Key"] for request in slow.requests}) == len(slow.requests) == MANY
