"""A slow destination takes its own places, and no others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure.assemble import make_instance
from perdure.config import Server, Settings
from perdure.testing import VirtualClock
from perdure.webhooks.places import NoPlace, Places
from perdure.webhooks.request import WebhookAnswer, WebhookRequest
from tests.engine.definitions import task, webhook
from tests.engine.driven import HOST_URL, Driven
from tests.support.receiver import Receiver
from tests.webhooks.support import MakeSender, StartRaw, saying_then_silent, webhook_to


async def test_a_slow_destination_does_not_hold_up_others(
    make_sender: MakeSender, receiver: Receiver, start_raw: StartRaw
) -> None:
    slow = await start_raw(saying_then_silent(b""))
    sender = await make_sender(concurrency=3, per_destination=2)
    stuck = [asyncio.create_task(sender.send(webhook_to(slow.url()))) for _ in range(10)]
    answers = await asyncio.gather(*(sender.send(webhook_to(receiver.url(f"/{number}"))) for number in range(5)))

    assert all(answer.accepted for answer in answers)
    assert not any(call.done() for call in stuck)
    assert len(slow.heads) <= 2
    for call in stuck:
        call.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)


async def test_who_waits_too_long_sends_nothing(make_sender: MakeSender, start_raw: StartRaw) -> None:
    slow = await start_raw(saying_then_silent(b""))
    sender = await make_sender(per_destination=1, patience_secs=0.05)
    first = asyncio.create_task(sender.send(webhook_to(slow.url())))
    await asyncio.sleep(0)
    with pytest.raises(NoPlace, match=rf"http://127\.0\.0\.1:{slow.port} was too busy for 0\.05 s"):
        await sender.send(webhook_to(slow.url()))
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)

    assert len(slow.heads) <= 1


async def test_destinations_are_forgotten_when_nobody_calls_them() -> None:
    places = Places(2, 1)
    async with places.take("a"), places.take("b"):
        waiting = asyncio.create_task(places.take("a").__aenter__())
        await asyncio.sleep(0)
        assert len(places) == 2
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert len(places) == 0
    async with places.take("a"):
        assert len(places) == 1


class BusySender:
    async def send(self, _request: WebhookRequest) -> WebhookAnswer:
        raise NoPlace("http://busy.test was too busy")

    async def close(self) -> None:
        pass


async def test_what_was_not_sent_is_taken_up_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(server=Server(database_url=f"sqlite:///{tmp_path}/test.db"))
    clock = VirtualClock()
    instance = make_instance(settings, HOST_URL, BusySender(), clock)
    await instance.store.open()
    driven = Driven(instance, clock)
    id = await driven.submit_one(task(on_start=webhook("http://busy.test/")))
    await driven.start()

    assert await driven.status(id) == "Claimed"
    assert await driven.attempts(id) == []
    (record,) = caplog.records
    assert record.__dict__["fields"]["key"] == f"{id}:start:0"
    clock.advance(settings.engine.claim_timeout_secs + 1)
    await driven.engine.reap_loop.run_once()
    assert await driven.status(id) == "Pending"
    await instance.engine.stop()
    await instance.store.close()
