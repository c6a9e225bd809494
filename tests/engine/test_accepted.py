"""What an answer that accepts an on_start call brings with it: a result, or how to cancel."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from perdure.domain.states import Status
from tests.engine.definitions import task, webhook
from tests.engine.driven import Driven
from tests.support.receiver import ReceivedRequest, Receiver


async def test_an_answer_is_the_result_where_the_task_says_so(driven: Driven, receiver: Receiver) -> None:
    receiver.answer("/work", json={"rows": 3})
    ids = await driven.submit(task("a", on_start=webhook(receiver.url("/work")), completion="response"), task("b", "a"))

    await driven.start()

    done = await driven.task(ids["a"])
    assert done.status is Status.SUCCESS
    assert json.loads(done.result or "") == {"rows": 3}
    assert await driven.status(ids["b"]) == "Pending"


@pytest.mark.parametrize("body", [b"", b"plain text", b'{"rows": ', b'"\\u0000"', b"\xff\xfe"])
async def test_an_answer_that_cannot_be_kept_is_a_success_without_result(
    driven: Driven, receiver: Receiver, body: bytes
) -> None:
    receiver.answer("/work", body=body)
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work")), completion="response"))

    await driven.start()

    done = await driven.task(id)
    assert (done.status, done.result) == (Status.SUCCESS, None)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'"\\u0000"', "NUL"),
        (b'{"rows": ', "truncated"),
        (b"[" * 200 + b"]" * 200, "nested"),
        (b'"' + b"x" * 70_000 + b'"', "longer"),
    ],
    ids=["nul", "broken", "deep", "long"],
)
async def test_json_that_cannot_be_kept_is_told_in_the_log(
    driven: Driven, receiver: Receiver, caplog: pytest.LogCaptureFixture, body: bytes, reason: str
) -> None:
    receiver.answer("/work", body=body, headers={"Content-Type": "application/json"})
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work")), completion="response"))

    await driven.start()

    (told,) = [record for record in caplog.records if "not kept as a result" in record.message]
    assert told.fields["key"] == f"{id}:start:0"  # type: ignore[attr-defined]
    assert reason in told.fields["error"]  # type: ignore[attr-defined]


async def test_a_byte_order_mark_is_no_part_of_the_result(driven: Driven, receiver: Receiver) -> None:
    receiver.answer("/work", body=b'\xef\xbb\xbf{"rows": 3}')
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work")), completion="response"))

    await driven.start()

    assert json.loads((await driven.task(id)).result or "") == {"rows": 3}


async def test_an_action_in_the_answer_becomes_the_cancel_action(driven: Driven, receiver: Receiver) -> None:
    receiver.answer("/work", json=webhook(receiver.url("/stop"), body={"job": 7}))
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work"))))
    await driven.start()
    (_, action) = json.loads((await driven.task(id)).actions)
    assert (action["trigger"], action["condition"], action["params"]["url"]) == ("Cancel", None, receiver.url("/stop"))

    await driven.commands.cancel(id)
    await driven.deliver()

    (request,) = receiver.requests_to("/stop")
    assert request.json() == {"job": 7}
    assert request.headers["Idempotency-Key"] == f"{id}:cancel:0"
    assert request.headers["X-Task-Trigger"] == "cancel"


async def test_a_cancel_during_the_call_reaches_the_cancel_action_of_the_answer(
    driven: Driven, receiver: Receiver
) -> None:
    async def cancel_first(request: ReceivedRequest) -> web.Response:
        await driven.commands.cancel(request.headers["X-Task-Id"])
        return web.json_response(webhook(receiver.url("/stop")))

    receiver.answer("/work", cancel_first)
    id = await driven.submit_one(
        task(on_start=webhook(receiver.url("/work")), on_cancel=[webhook(receiver.url("/canceled"))])
    )

    await driven.start()
    await driven.deliver()

    assert await driven.status(id) == "Canceled"
    keys = {request.path: request.headers["Idempotency-Key"] for request in receiver.requests[1:]}
    assert keys == {"/canceled": f"{id}:cancel:0", "/stop": f"{id}:cancel:0:1"}


@pytest.mark.parametrize(
    "answer",
    [
        {"kind": "Webhook", "params": {"url": "ftp://receiver.test/"}},
        {"kind": "Webhook", "params": {"url": "http://user:secret@receiver.test/"}},
        {"kind": "Webhook", "params": {"verb": "Post"}},
        {"kind": "Mail", "params": {"url": "http://receiver.test/"}},
        {"kind": "Webhook", "params": {"url": "http://receiver.test/", "verb": "Steal"}},
        {"kind": "Webhook", "params": {"url": "http://receiver.test/", "headers": {"Host": "elsewhere"}}},
        {"kind": "Webhook", "params": "http://receiver.test/"},
    ],
)
async def test_a_bad_action_in_the_answer_is_dropped_with_a_warning(
    driven: Driven, receiver: Receiver, caplog: pytest.LogCaptureFixture, answer: dict[str, Any]
) -> None:
    receiver.answer("/work", json=answer)
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work"))))

    await driven.start()

    assert await driven.status(id) == "Running"
    assert "the cancel action in the answer was dropped" in caplog.messages
    assert len(json.loads((await driven.task(id)).actions)) == 1


async def test_another_answer_is_no_action(
    driven: Driven, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answer("/work", json={"accepted": True})
    id = await driven.submit_one(task(on_start=webhook(receiver.url("/work"))))

    await driven.start()

    assert len(json.loads((await driven.task(id)).actions)) == 1
    assert caplog.messages == []
