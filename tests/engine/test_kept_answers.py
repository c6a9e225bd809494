"""What a receiver wrote when it refused is kept with the attempt, and with the delivery: in one line, cut, masked."""

from __future__ import annotations

import pytest

from perdure.domain.checks import REASON_BYTES
from tests.engine.definitions import task, webhook
from tests.engine.driven import Driven, MakeEngine
from tests.support.receiver import Receiver

PREFIX = "on_start webhook failed: "


async def refused(driven: Driven, receiver: Receiver, body: bytes) -> str:
    """The reason that stands in the attempt and in the task, after a refusal with this body."""
    receiver.answer("/work", status=503, body=body)
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work"))))
    await driven.start()
    (attempt,) = await driven.attempts(id)
    assert attempt["message"] == (await driven.task(id)).failure_reason
    kept = (await driven.deliveries(id))["start:0"]["last_error"]
    assert attempt["message"].startswith(PREFIX + kept)
    return str(attempt["message"]).removeprefix(PREFIX)


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"", "HTTP 503"),
        (b" \r\n", "HTTP 503"),
        (b"{}", "HTTP 503"),
        (b"queue is full", "HTTP 503: queue is full"),
        (b"<h1>Bad gateway</h1>\n\n<p>nginx</p>\n", "HTTP 503: <h1>Bad gateway</h1> <p>nginx</p>"),
        (b'{"error": {"id": 7}}', 'HTTP 503: {"error": {"id": 7}}'),
        (b'["full", "busy"]', 'HTTP 503: ["full", "busy"]'),
        (b"\x1b[31mred\x1b[0m", "HTTP 503: ?[31mred?[0m"),
        (b"M\xfcller", "HTTP 503: M\ufffdller"),
        (b"\x00\x01\x02\xff", "HTTP 503: (4 bytes that are no text)"),
        (b'{"message": "closed"}', "HTTP 503: closed"),
        (b'{"message": "closed", "code": "shut", "error_class": "final", "retry_after": 1}', "HTTP 503: closed"),
        (b'{"message": "closed", "id": 7}', 'HTTP 503: {"message": "closed", "id": 7}: closed'),
    ],
)
async def test_the_reason_ends_with_what_the_receiver_wrote(
    driven: Driven, receiver: Receiver, body: bytes, kept: str
) -> None:
    assert await refused(driven, receiver, body) == kept


@pytest.mark.parametrize(
    "body", [b"x" * 100_000, b" \n" * 30_000 + b"x" * 100_000, "ä".encode() * 40_000, b"\x01" * 100]
)
async def test_a_long_body_is_cut(driven: Driven, receiver: Receiver, body: bytes) -> None:
    reason = await refused(driven, receiver, body)

    assert reason.startswith("HTTP 503: ")
    assert len((PREFIX + reason).encode()) < REASON_BYTES
    assert reason.isprintable()
    assert reason.endswith("…") or len(body) == 100


async def test_an_end_webhook_keeps_it_too(driven: Driven, receiver: Receiver) -> None:
    receiver.answer("/told", status=500, body=b"out of\npaper")
    id = await driven.submit_one(
        task(on_start=webhook(receiver.url("/work")), on_success=[webhook(receiver.url("/told"))])
    )
    await driven.start()
    await driven.report(id)

    await driven.deliver()

    delivery = (await driven.deliveries(id))["success:0"]
    assert (delivery["last_status"], delivery["last_error"]) == (500, "HTTP 500: out of paper")


async def test_secrets_that_a_receiver_repeats_are_masked(make_engine: MakeEngine, receiver: Receiver) -> None:
    driven = await make_engine(secrets={"TOKEN": 'pass"wörd/1'})
    receiver.answer("/plain", status=401, body='no such token: pass"wörd/1'.encode())
    receiver.answer("/json", status=401, json={"token": 'pass"wörd/1'})
    receiver.answer("/slash", status=401, body='{"token": "pass\\"wörd\\/1"}'.encode())
    kept = {}
    for path in ("/plain", "/json", "/slash"):
        action = webhook(receiver.url(path), headers={"Authorization": "Bearer ${secret:TOKEN}"})
        id = await driven.submit_one(task(on_start=action))
        await driven.start()
        kept[path] = (await driven.attempts(id))[0]["message"].removeprefix(PREFIX)

    assert kept == {
        "/plain": "HTTP 401: no such token: ***",
        "/json": 'HTTP 401: {"token": "***"}',
        "/slash": 'HTTP 401: {"token": "***"}',
    }
