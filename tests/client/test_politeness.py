"""A client repeats what may be repeated, waits as it is asked to, and never does anything twice."""

from __future__ import annotations

import json
from copy import copy

import pytest

from perdure.client import (
    AsyncClient,
    InvalidRequest,
    Refused,
    Request,
    Response,
    Unavailable,
    Unreachable,
    conversation,
)
from perdure.client.conversation import LONGEST_WAIT_SECS


class Script:
    """A transport that answers as it is told, and notes what is asked and how long is waited."""

    def __init__(self, *answers: Response | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[Request] = []
        self.pauses: list[float] = []

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise copy(answer)
        return answer

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def close(self) -> None:
        pass


def says(status: int, body: object = None, **headers: str) -> Response:
    return Response(
        status, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(body).encode()
    )


OK = says(200, {"status": "ok", "database": "healthy"})
STORED = says(201, {"batch_id": "b", "tasks": []})
BROKEN = Unreachable("the connection broke", sent=True)
NOT_THERE = Unreachable("connection refused", sent=False)


@pytest.mark.parametrize("trouble", [says(503), says(502), says(504), says(429), BROKEN, NOT_THERE], ids=str)
async def test_questions_are_asked_again(trouble: Response | Exception) -> None:
    script = Script(trouble, trouble, OK)
    assert (await AsyncClient(transport=script).health()).status == "ok"
    assert len(script.requests) == 3
    assert all(0 <= pause <= LONGEST_WAIT_SECS for pause in script.pauses)


async def test_a_server_may_ask_for_more_time() -> None:
    script = Script(says(503, retry_after="7"), OK)
    await AsyncClient(transport=script).health()
    assert script.pauses == [7]


async def test_a_wait_beyond_reason_is_not_waited() -> None:
    script = Script(says(503, {"title": "Away"}, retry_after="86400"))
    with pytest.raises(Refused, match="Away"):
        await AsyncClient(transport=script).health()
    assert script.pauses == []


async def test_after_a_while_nothing_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "PATIENCE_SECS", 5.0)
    script = Script(says(503, {"title": "Away"}, retry_after="7"))
    with pytest.raises(Unavailable, match="Away"):
        await AsyncClient(transport=script).pauses()
    assert script.pauses == []


async def test_an_earlier_try_may_have_arrived_though_the_last_did_not() -> None:
    script = Script(BROKEN, NOT_THERE)
    with pytest.raises(Unreachable, match="idempotency_key='order-7'") as lost:
        await AsyncClient(transport=script, retries=1).submit([], idempotency_key="order-7")
    assert lost.value.sent


async def test_in_the_end_it_gives_up() -> None:
    script = Script(*[BROKEN] * 3)
    with pytest.raises(Unreachable):
        await AsyncClient(transport=script, retries=2).health()
    assert len(script.requests) == 3


@pytest.mark.parametrize(
    "trouble", [BROKEN, NOT_THERE, says(503), says(409, {"type": "urn:perdure:problem:still-processing"})], ids=str
)
async def test_a_submission_is_repeated_with_the_same_key(trouble: Response | Exception) -> None:
    script = Script(trouble, STORED)
    await AsyncClient(transport=script).submit({"id": "a", "name": "A", "kind": "etl"})
    first, second = script.requests
    assert first == second
    assert first.headers["Idempotency-Key"]


async def test_each_submission_has_a_key_of_its_own() -> None:
    script = Script(STORED, STORED)
    client = AsyncClient(transport=script)
    await client.submit([])
    await client.submit([])
    first, second = script.requests
    assert first.headers["Idempotency-Key"] != second.headers["Idempotency-Key"]


@pytest.mark.parametrize("trouble", [BROKEN, says(503, {"title": "Away"})], ids=str)
async def test_what_may_have_been_done_is_not_done_again(trouble: Response | Exception) -> None:
    script = Script(trouble)
    with pytest.raises((Unreachable, Refused)):
        await AsyncClient(transport=script).count("t", new_success=1)
    assert len(script.requests) == 1


@pytest.mark.parametrize("trouble", [NOT_THERE, says(429)], ids=str)
async def test_what_was_certainly_not_done_is_asked_for_again(trouble: Response | Exception) -> None:
    script = Script(trouble, says(202))
    await AsyncClient(transport=script).count("t", new_success=1)
    assert len(script.requests) == 2


async def test_a_refusal_is_final() -> None:
    script = Script(says(400, {"detail": "Bad.", "details": ["tasks: must not be empty"]}))
    with pytest.raises(InvalidRequest, match=r"Bad\.") as refused:
        await AsyncClient(transport=script).submit([])
    assert refused.value.details == ["tasks: must not be empty"]


async def test_an_answer_that_is_no_problem_document_is_told_too() -> None:
    with pytest.raises(Refused, match="500"):
        await AsyncClient(transport=Script(Response(500, {}, b"<html>"))).health()


async def test_a_token_goes_with_every_request() -> None:
    script = Script(OK)
    await AsyncClient(transport=script, token="t0ken").health()
    assert script.requests[0].headers["Authorization"] == "Bearer t0ken"
