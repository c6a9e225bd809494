"""Secrets in headers: sent, and seen nowhere else."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from perdure.api import build_app
from perdure.assemble import make_instance
from perdure.config import Server, Settings, Webhooks
from perdure.testing import VirtualClock
from perdure.webhooks.secrets import Secrets
from tests.api.client import Client
from tests.engine.definitions import task, webhook
from tests.engine.driven import HOST_URL, Driven
from tests.support.receiver import Receiver
from tests.webhooks.support import MakeSender, webhook_to

TOKEN = "planted-t0ken-71c9"
KEY = "planted-k3y-52aa"
SIGNING = "whsec_cGxhbnRlZC1zaWduaW5nLXNlY3JldC0xMjM0NTY3OA=="
SECRETS = Secrets({"TOKEN": TOKEN, "my.key-2": KEY})


async def test_they_are_filled_in_when_the_request_leaves(make_sender: MakeSender, receiver: Receiver) -> None:
    sender = await make_sender(secrets=SECRETS)
    given = {"Authorization": "Bearer ${secret:TOKEN}", "X-Both": "${secret:TOKEN}/${secret:my.key-2}", "X": "$TOKEN"}
    await sender.send(webhook_to(receiver.url(), headers=given))

    headers = receiver.requests[0].headers
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert headers["X-Both"] == f"{TOKEN}/{KEY}"
    assert headers["X"] == "$TOKEN"


async def test_a_value_is_not_looked_at_again(make_sender: MakeSender, receiver: Receiver) -> None:
    sender = await make_sender(secrets=Secrets({"A": "${secret:B}", "B": "b"}))
    await sender.send(webhook_to(receiver.url(), headers={"X": "${secret:A}"}))
    assert receiver.requests[0].headers["X"] == "${secret:B}"


@pytest.mark.parametrize("value", ["${secret:GONE}", "x ${secret:} y", "${secret:token}"])
async def test_an_unknown_one_is_not_sent(value: str, make_sender: MakeSender, receiver: Receiver) -> None:
    sender = await make_sender(secrets=SECRETS)
    answer = await sender.send(webhook_to(receiver.url(), headers={"X": value}))

    assert (answer.status, answer.error_code) == (None, "invalid_request")
    assert "which is not configured" in answer.describe()
    assert receiver.requests == []


async def test_a_value_cannot_add_headers(make_sender: MakeSender, receiver: Receiver) -> None:
    sender = await make_sender(secrets=Secrets({"BAD": "hidden\r\nX-Evil: 1"}))
    answer = await sender.send(webhook_to(receiver.url(), headers={"X": "${secret:BAD}"}))

    assert answer.error_code == "invalid_request"
    assert "hidden" not in answer.describe()
    assert receiver.requests == []


async def test_what_a_receiver_sends_back_is_masked(make_sender: MakeSender, receiver: Receiver) -> None:
    receiver.answer("/hook", status=401, body=f"bad token {TOKEN}".encode(), headers={"Retry-After": TOKEN})
    sender = await make_sender(secrets=SECRETS)
    answer = await sender.send(webhook_to(receiver.url("/hook"), headers={"X": "${secret:TOKEN}"}))

    assert answer.body == b"bad token ***"
    assert answer.headers["retry-after"] == "***"


def test_they_print_as_names() -> None:
    assert repr(SECRETS) == "Secrets(TOKEN, my.key-2)"


def read_all(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def test_planted_secrets_are_found_nowhere(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = Settings(
        server=Server(database_url=f"sqlite:///{tmp_path}/test.db"),
        webhooks=Webhooks(signing_secrets=(SIGNING,), delivery_retry=()),
        secrets={"TOKEN": TOKEN},
    )
    clock = VirtualClock()
    instance = make_instance(settings, HOST_URL, clock=clock)
    await instance.store.open()
    driven = Driven(instance, clock)
    client = Client(build_app(instance.engine.commands, instance.store, instance.metrics, settings))
    seen: list[str] = []

    async def look(path: str) -> None:
        seen.append((await client.get(path)).body.decode())

    def hook(path: str) -> dict[str, object]:
        return webhook(receiver.url(path), headers={"Authorization": "Bearer ${secret:TOKEN}"})

    echo = {"message": f"who is {TOKEN}?", "code": TOKEN}
    receiver.answer("/refuse", status=403, json=echo)
    receiver.answer("/end", status=403, json=echo)
    receiver.answer("/respond", json={"you": f"Bearer {TOKEN}"})
    ids = await driven.submit(
        task("refused", on_start=hook("/refuse"), on_failure=[hook("/end")]),
        task("answered", on_start=hook("/respond"), completion="response"),
    )
    refused = await client.post(
        "/task", [task(on_start=webhook(receiver.url(), headers={"X": "${secret:OTHER} ${secret:TOKEN}"}))]
    )
    assert refused.status == 400
    assert "names the secret 'OTHER', which is not configured" in refused.details[0]
    seen.append(refused.body.decode())
    await driven.start()
    await driven.deliver()
    for id in ids.values():
        for path in ("", "/attempts", "/deliveries", "/events"):
            await look(f"/task/{id}{path}")
    for path in ("/task", "/metrics", "/batches"):
        await look(path)
    await instance.engine.stop()
    await instance.store.close()

    sent = [request.headers["Authorization"] for request in receiver.requests]
    assert sent == [f"Bearer {TOKEN}"] * 3
    assert (await client.get("/openapi.json")).status == 200
    seen += [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    stored = read_all(tmp_path)
    assert b"${secret:TOKEN}" in stored
    for planted in (TOKEN, SIGNING, SIGNING.removeprefix("whsec_")):
        assert planted.encode() not in stored
        assert [text for text in seen if planted in text] == []
