"""Signatures, verified as a receiver does it: by the public package."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from perdure.clock import SystemClock
from perdure.config import ConfigurationError, Settings, Webhooks, load, render_settings
from perdure.config.signing import decode_signing_secrets
from perdure.testing import VirtualClock
from perdure.webhooks.signing import Signer
from tests.support.receiver import ReceivedRequest, Receiver
from tests.webhooks.support import TASK_ID, MakeSender, webhook_to


def secret(letter: str, length: int = 32) -> str:
    return "whsec_" + base64.b64encode(letter.encode() * length).decode()


OLD, NEW, OTHER = secret("a"), secret("b"), secret("c")


def signer(*secrets: str) -> Signer:
    return Signer(decode_signing_secrets(secrets, {}), SystemClock())


def verify(request: ReceivedRequest, secret: str) -> object:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Webhook(secret).verify(request.body, headers)


async def test_a_receiver_can_verify_who_called(make_sender: MakeSender, receiver: Receiver) -> None:
    sender = await make_sender(signer=signer(NEW))
    await sender.send(webhook_to(receiver.url(), body='{"a": "ä"}'))

    (request,) = receiver.requests
    assert verify(request, NEW) == {"a": "ä"}
    assert request.headers["webhook-id"] == request.headers["Idempotency-Key"] == f"{TASK_ID}:start:2"
    with pytest.raises(WebhookVerificationError):
        verify(request, OTHER)


async def test_while_secrets_are_rotated_both_verify(make_sender: MakeSender, receiver: Receiver) -> None:
    sender = await make_sender(signer=signer(NEW, OLD))
    await sender.send(webhook_to(receiver.url(), body="{}"))

    (request,) = receiver.requests
    assert len(request.headers["webhook-signature"].split(" ")) == 2
    verify(request, OLD)
    verify(request, NEW)


async def test_a_request_without_a_body_is_signed_too(make_sender: MakeSender, receiver: Receiver) -> None:
    sender = await make_sender(signer=signer(NEW))
    await sender.send(webhook_to(receiver.url()))

    (request,) = receiver.requests
    headers = request.headers
    moment = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    assert Webhook(NEW).sign(headers["webhook-id"], moment, "") == headers["webhook-signature"]


async def test_a_body_that_was_changed_does_not_verify(make_sender: MakeSender, receiver: Receiver) -> None:
    sender = await make_sender(signer=signer(NEW))
    await sender.send(webhook_to(receiver.url(), body='{"amount": 1}'))

    headers = {name.lower(): value for name, value in receiver.requests[0].headers.items()}
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(json.dumps({"amount": 2}), headers)


async def test_users_cannot_write_signatures(make_sender: MakeSender, receiver: Receiver) -> None:
    theirs = {"Webhook-Id": "theirs", "WEBHOOK-TIMESTAMP": "1", "webhook-signature": "v1,theirs"}
    await (await make_sender(signer=signer(NEW))).send(webhook_to(receiver.url(), body="{}", headers=theirs))
    await (await make_sender()).send(webhook_to(receiver.url(), body="{}", headers=theirs))

    signed, unsigned = receiver.requests
    verify(signed, NEW)
    assert signed.headers.getall("webhook-id") == [f"{TASK_ID}:start:2"]
    assert not [name for name in unsigned.headers if name.lower().startswith("webhook-")]


def test_the_timestamp_is_the_clocks_when_it_is_sent() -> None:
    clock = VirtualClock()
    one = Signer(decode_signing_secrets([NEW], {}), clock)
    first = int(one.sign("id", b"")["webhook-timestamp"])
    clock.advance(90)

    assert int(one.sign("id", b"")["webhook-timestamp"]) == first + 90
    assert first == int(clock.now().timestamp()) - 90


def test_secrets_may_be_named() -> None:
    assert decode_signing_secrets([OLD, "SIGNING"], {"SIGNING": NEW}) == [b"a" * 32, b"b" * 32]


@pytest.mark.parametrize(
    "entry",
    ["unknown", "whsec_", "whsec_short", "whsec_!!!!", secret("x", 23), secret("x", 65), "SHORT", OLD[6:]],
)
def test_what_is_no_secret_stops_the_start_and_is_not_shown(entry: str) -> None:
    environ = {"PERDURE_WEBHOOKS_SIGNING_SECRETS": entry, "PERDURE_SECRET_SHORT": "hidden-value"}
    with pytest.raises(ConfigurationError) as refused:
        load(environ=environ)
    (problem,) = refused.value.problems
    assert problem.startswith("webhooks.signing_secrets = *** (environment PERDURE_WEBHOOKS_SIGNING_SECRETS): entry 1 ")
    assert "hidden-value" not in problem
    assert entry == "whsec_" or entry not in problem


def test_secrets_are_masked_wherever_settings_are_shown() -> None:
    settings = Settings(webhooks=Webhooks(signing_secrets=(NEW, "NAME")))
    shown = dict(row[:2] for row in render_settings(settings))
    assert shown["webhooks.signing_secrets"] == '["***", "***"]'
    assert NEW not in repr(settings)
