"""Every line that is logged about a webhook carries its idempotency key."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from perdure.assemble import make_instance
from perdure.config import Server, Settings
from perdure.engine.loops import deliver, start
from perdure.engine.loops.loop import Loop
from perdure.testing import VirtualClock
from perdure.webhooks.places import NoPlace
from perdure.webhooks.request import WebhookAnswer, WebhookRequest
from tests.engine.definitions import task, webhook
from tests.engine.driven import HOST_URL, Driven

ACCEPTED = WebhookAnswer(200, 0.1)
TOLD = "http://receiver.test/told"


class Told:
    """Sends nothing: `outcome` says what became of a call."""

    def __init__(self) -> None:
        self.outcome: Callable[[], Awaitable[WebhookAnswer]] = accept
        self.called = asyncio.Event()

    async def send(self, _request: WebhookRequest) -> WebhookAnswer:
        self.called.set()
        return await self.outcome()

    async def close(self) -> None:
        pass


async def accept() -> WebhookAnswer:
    return ACCEPTED


async def refuse() -> WebhookAnswer:
    return WebhookAnswer(503, 0.1)


async def break_off() -> WebhookAnswer:
    return WebhookAnswer(None, 0.1, error_code="connection_error", error="connection reset by receiver.test:80")


async def have_no_place() -> WebhookAnswer:
    raise NoPlace("http://receiver.test was too busy")


async def break_down() -> WebhookAnswer:
    raise RuntimeError("a mistake of ours")


async def name_a_bad_action() -> WebhookAnswer:
    return WebhookAnswer(200, 0.1, b'{"kind": "Webhook", "params": {"url": "ftp://receiver.test/"}}')


@pytest.fixture
def sender() -> Told:
    return Told()


@pytest.fixture
async def driven(sender: Told, database_url: str) -> AsyncIterator[Driven]:
    clock = VirtualClock()
    settings = Settings(server=Server(database_url=database_url, shutdown_grace_secs=0))
    instance = make_instance(settings, HOST_URL, sender, clock)
    await instance.store.open()
    yield Driven(instance, clock)
    await instance.engine.stop()
    await instance.store.close()


def keys(caplog: pytest.LogCaptureFixture) -> list[str | None]:
    """The key in each line of the loops that call, None where one is missing."""
    records = [record for record in caplog.records if record.module in ("start", "accepted", "deliver")]
    assert records, "nothing was logged"
    return [fields_of(record).get("key") for record in records]


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = record.__dict__.get("fields", {})
    return fields


@pytest.mark.parametrize("outcome", [refuse, break_off, have_no_place, break_down, name_a_bad_action])
async def test_lines_about_on_start(
    outcome: Callable[[], Awaitable[WebhookAnswer]], driven: Driven, sender: Told, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "perdure")
    sender.outcome = outcome
    id = await driven.submit_one(task(on_start=webhook(TOLD)))

    await driven.start()

    assert set(keys(caplog)) == {f"{id}:start:0"}
    assert "a call failed in an unforeseen way; it is repeated after its lease" not in caplog.messages


async def ended(driven: Driven, sender: Told) -> str:
    """A task with a webhook to send."""
    sender.outcome = accept
    id = await driven.submit_one(task(on_start=webhook(TOLD), on_success=[webhook(TOLD)]))
    await driven.start()
    await driven.report(id)
    return id


@pytest.mark.parametrize("outcome", [refuse, break_off, have_no_place, break_down])
async def test_lines_about_deliveries(
    outcome: Callable[[], Awaitable[WebhookAnswer]], driven: Driven, sender: Told, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "perdure")
    id = await ended(driven, sender)
    sender.outcome = outcome

    await driven.deliver()

    assert set(keys(caplog)) == {f"{id}:success:0"}
    assert "a call failed in an unforeseen way; it is repeated after its lease" not in caplog.messages


async def test_lines_about_what_cannot_be_recorded(
    driven: Driven, sender: Told, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await ended(driven, sender)

    async def break_down(*_: object) -> list[bool]:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(deliver, "settle_deliveries", break_down)
    await driven.deliver()
    monkeypatch.setattr(start, "settle_starts", break_down)
    other = await driven.submit_one(task(on_start=webhook(TOLD)))
    await driven.start()

    assert keys(caplog) == [f"{id}:success:0", f"{other}:start:0"]


@pytest.mark.parametrize("trigger", ["start", "success"])
async def test_lines_about_calls_that_a_shutdown_cut_off(
    trigger: str, driven: Driven, sender: Told, caplog: pytest.LogCaptureFixture
) -> None:
    loop: Loop = driven.engine.start_loop
    if trigger == "start":
        id = await driven.submit_one(task(on_start=webhook(TOLD)))
    else:
        id, loop = await ended(driven, sender), driven.engine.deliver_loop
    sender.outcome = asyncio.get_running_loop().create_future
    sender.called.clear()
    await loop.run_once()
    await sender.called.wait()

    await driven.engine.stop()

    assert keys(caplog) == [f"{id}:{trigger}:0"]
