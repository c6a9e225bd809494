"""What an answer means: statuses, headers and bodies over real HTTP, and the same words in a report."""

from __future__ import annotations

import socket
from typing import Any

from tests.engine.definitions import STEADY, webhook
from tests.retries.conftest import TellStory
from tests.retries.story import Story
from tests.support.receiver import Receiver

#: Half an hour after the beginning and the day before it, as HTTP and as a reset write them.
HALF_AN_HOUR = "Tue, 01 Jan 2030 00:30:00 GMT"
HALF_AN_HOUR_EPOCH = str(1_893_456_000 + 1800)
YESTERDAY = "Mon, 31 Dec 2029 00:00:00 GMT"

FINAL = ("Failure", 0, 0, None)
CHARGED = ("RetryPending", 1, 1, 10.0)


def uncharged(second: float) -> tuple[str, int, int, float]:
    return ("RetryPending", 1, 0, second)


# Status, headers, body of the answer; status, attempt, retry_count, next_retry_at of the task; class in the history.
ANSWERS: list[tuple[str, int, dict[str, str], Any, tuple[str, int, int, float | None], str]] = [
    ("408", 408, {}, {}, CHARGED, "retryable"),
    ("425", 425, {}, {}, CHARGED, "retryable"),
    ("500", 500, {}, {}, CHARGED, "retryable"),
    ("502", 502, {}, {}, CHARGED, "retryable"),
    ("503", 503, {}, {}, CHARGED, "retryable"),
    ("599", 599, {}, {}, CHARGED, "retryable"),
    ("400", 400, {}, {}, FINAL, "final"),
    ("404", 404, {}, {}, FINAL, "final"),
    ("410", 410, {}, {}, FINAL, "final"),
    ("302", 302, {"Location": "/elsewhere"}, {}, FINAL, "final"),
    ("304", 304, {}, None, FINAL, "final"),
    ("429", 429, {}, {}, CHARGED, "rate_limited"),
    ("429 seconds", 429, {"Retry-After": "120"}, {}, uncharged(120), "rate_limited"),
    ("429 date", 429, {"Retry-After": HALF_AN_HOUR}, {}, uncharged(1800), "rate_limited"),
    ("429 below the own delay", 429, {"Retry-After": "3"}, {}, uncharged(10), "rate_limited"),
    ("429 zero", 429, {"Retry-After": "0"}, {}, uncharged(10), "rate_limited"),
    ("429 huge", 429, {"Retry-After": "1" + "0" * 30}, {}, uncharged(3600), "rate_limited"),
    ("429 negative", 429, {"Retry-After": "-5"}, {}, CHARGED, "rate_limited"),
    ("429 nonsense", 429, {"Retry-After": "soon"}, {}, CHARGED, "rate_limited"),
    ("429 date in the past", 429, {"Retry-After": YESTERDAY}, {}, CHARGED, "rate_limited"),
    ("503 seconds", 503, {"Retry-After": "120"}, {}, uncharged(120), "rate_limited"),
    ("503 date", 503, {"Retry-After": HALF_AN_HOUR}, {}, uncharged(1800), "rate_limited"),
    ("503 nonsense", 503, {"Retry-After": "soon"}, {}, CHARGED, "retryable"),
    ("500 seconds", 500, {"Retry-After": "120"}, {}, CHARGED, "retryable"),
    ("404 seconds", 404, {"Retry-After": "120"}, {}, FINAL, "final"),
    ("429 RateLimit-Reset", 429, {"RateLimit-Reset": "70"}, {}, uncharged(70), "rate_limited"),
    ("429 X-RateLimit-Reset", 429, {"X-RateLimit-Reset": HALF_AN_HOUR_EPOCH}, {}, uncharged(1800), "rate_limited"),
    ("429 both", 429, {"Retry-After": "20", "RateLimit-Reset": "70"}, {}, uncharged(20), "rate_limited"),
    ("body final", 503, {}, {"error_class": "final"}, FINAL, "final"),
    ("body retryable", 404, {}, {"error_class": "retryable"}, CHARGED, "retryable"),
    (
        "body rate limited",
        500,
        {},
        {"error_class": "rate_limited", "retry_after": 45},
        uncharged(45),
        "rate_limited",
    ),
    ("body rate limited only", 500, {}, {"error_class": "rate_limited"}, CHARGED, "rate_limited"),
    ("body delay", 429, {"Retry-After": "20"}, {"retry_after": 45}, uncharged(45), "rate_limited"),
    ("body 503 delay", 503, {}, {"retry_after": 45}, uncharged(45), "rate_limited"),
    ("body nonsense", 500, {}, {"error_class": "strange", "retry_after": {}, "code": 5}, CHARGED, "retryable"),
    ("body no object", 500, {}, ["final"], CHARGED, "retryable"),
]


async def test_answers_to_on_start(story: Story, receiver: Receiver) -> None:
    for name, status, headers, body, _, _ in ANSWERS:
        receiver.answer(f"/{name}", status=status, headers=headers, json=body)

    ids = await story.run(*[story.job(case[0]) for case in ANSWERS])

    assert {name: await story.progress(id) for name, id in ids.items()} == {case[0]: case[4] for case in ANSWERS}
    for name, status, _, _, (shown, _, charged, _), error_class in ANSWERS:
        (row,) = await story.attempts(ids[name])
        assert (row["outcome"], row["trigger"], row["http_status"]) == ("failure", "webhook_failure", status), name
        assert (row["error_class"], (await story.task(ids[name])).error_class) == (error_class, error_class), name
        assert row["message"].startswith(f"on_start webhook failed: HTTP {status}"), name
        if shown == "Failure":
            assert (row["charged"], row["delay_source"]) == (None, None), name
        else:
            source = "exponential" if charged else "server"
            assert (row["charged"], row["delay_source"]) == (bool(charged), source), name


async def test_a_redirect_is_not_followed(story: Story, receiver: Receiver) -> None:
    receiver.answer("/a", status=302, headers={"Location": receiver.url("/elsewhere")})

    await story.run_one(story.job("a"))

    assert receiver.requests_to("/elsewhere") == []


async def test_an_answer_says_code_and_message(story: Story, receiver: Receiver) -> None:
    receiver.answer("/a", status=500, json={"code": "QUOTA", "message": "ask again tomorrow"})

    id = await story.run_one(story.job("a"))

    (row,) = await story.attempts(id)
    assert (row["code"], row["http_status"]) == ("QUOTA", 500)
    assert row["message"] == "on_start webhook failed: HTTP 500: ask again tomorrow"
    assert (await story.task(id)).failure_reason == row["message"]


async def test_a_refused_connection_is_retried(story: Story) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    id = await story.run_one(story.job("a", on_start=webhook(f"http://127.0.0.1:{port}/a")))

    assert await story.progress(id) == CHARGED
    (row,) = await story.attempts(id)
    assert (row["error_class"], row["code"], row["http_status"]) == ("retryable", "connection_error", None)
    assert row["message"] == f"on_start webhook failed: connection refused by 127.0.0.1:{port}"


async def test_a_connection_that_breaks_is_retried(story: Story, receiver: Receiver) -> None:
    receiver.answer("/a", disconnect=True)

    id = await story.run_one(story.job("a"))

    assert await story.progress(id) == CHARGED
    assert [row["code"] for row in await story.attempts(id)] == ["connection_error"]


async def test_a_receiver_that_does_not_answer_in_time_is_retried(story: Story, receiver: Receiver) -> None:
    receiver.answer("/a", delay=60)

    id = await story.run_one(story.job("a", on_start=webhook(receiver.url("/a"), timeout=0.05)))

    assert await story.progress(id) == CHARGED
    assert [(row["trigger"], row["code"]) for row in await story.attempts(id)] == [("webhook_failure", "read_timeout")]


# Members of the report; status, attempt, retry_count, next_retry_at of the task; class in the history.
REPORTS: list[tuple[dict[str, Any], tuple[str, int, int, float | None], str]] = [
    ({}, CHARGED, "retryable"),
    ({"error_class": "final"}, FINAL, "final"),
    ({"error_class": "retryable"}, CHARGED, "retryable"),
    ({"error_class": "rate_limited"}, CHARGED, "rate_limited"),
    ({"error_class": "rate_limited", "retry_after": 90}, uncharged(90), "rate_limited"),
    ({"retry_after": 90}, uncharged(90), "rate_limited"),
    ({"retry_after": "90"}, uncharged(90), "rate_limited"),
    ({"retry_after": HALF_AN_HOUR}, uncharged(1800), "rate_limited"),
    ({"retry_after": 10**12}, uncharged(3600), "rate_limited"),
    ({"retry_after": -1}, CHARGED, "retryable"),
    ({"retry_after": "later"}, CHARGED, "retryable"),
    ({"error_class": "retryable", "retry_after": 90}, CHARGED, "retryable"),
    ({"error_class": "final", "retry_after": 90}, FINAL, "final"),
]


async def test_reports_of_the_receiver(story: Story) -> None:
    ids = await story.run(*[story.job(str(number)) for number in range(len(REPORTS))])

    for (members, progress, error_class), id in zip(REPORTS, ids.values(), strict=True):
        answered = await story.client.patch(
            f"/task/{id}", {"status": "Failure", "failure_reason": "no", "code": "E7", **members}, attempt=0
        )

        assert answered.status == 200
        assert await story.progress(id) == progress, members
        (row,) = await story.attempts(id)
        assert (row["trigger"], row["error_class"], row["code"]) == ("explicit", error_class, "E7"), members
        assert row["message"] == "no"


async def test_the_configured_table_decides_over_the_default_one(tell: TellStory, receiver: Receiver) -> None:
    story = await tell(
        classification={"404": "retryable", "5xx": "final", "503": "rate_limited", "QUOTA": "rate_limited"}
    )
    receiver.answer("/missing", status=404)
    receiver.answer("/broken", status=500)
    receiver.answer("/busy", status=503)
    receiver.answer("/quota", status=400, json={"code": "QUOTA", "retry_after": 30})

    ids = await story.run(*[story.job(key) for key in ("missing", "broken", "busy", "quota", "reported")])
    await story.fail(ids["reported"], code="QUOTA", retry_after=40)

    assert await story.progress(ids["missing"]) == CHARGED
    assert await story.progress(ids["broken"]) == FINAL
    assert await story.progress(ids["busy"]) == CHARGED
    assert await story.progress(ids["quota"]) == uncharged(30)
    assert await story.progress(ids["reported"]) == uncharged(40)


async def test_the_configured_table_says_what_success_is(tell: TellStory, receiver: Receiver) -> None:
    story = await tell(classification={"409": "success", "204": "retryable"})
    receiver.answer("/exists", status=409, json={"created": False})
    receiver.answer("/exists-result", status=409, json={"created": False})
    receiver.answer("/empty", status=204, body=b"")

    ids = await story.run(story.job("exists"), story.job("exists-result", completion="response"), story.job("empty"))

    assert await story.status(ids["exists"]) == "Running"
    finished = await story.task(ids["exists-result"])
    assert (finished.status.label, finished.result and finished.result.replace(" ", "")) == (
        "Success",
        '{"created":false}',
    )
    assert await story.progress(ids["empty"]) == CHARGED
    assert story.metric("webhook_attempts_total", trigger="start", outcome="success") == 2
    assert story.metric("webhook_executions_total", trigger="start", outcome="failure") == 1


# The policy's conditions, and what becomes of each answer: retried or not.
CONDITIONS: list[tuple[str, dict[str, Any], dict[int, bool]]] = [
    ("class", {"retry_on": ["5xx"]}, {500: True, 503: True, 408: False, 429: False}),
    ("status", {"retry_on": ["503"]}, {500: False, 503: True}),
    (
        "document 002",
        {"retryOn": ["5xx", "408", "429"], "ignoreExceptions": ["4xx"]},
        {500: True, 408: True, 429: True, 404: False, 425: False},
    ),
    ("ignored status in a class", {"retry_on": ["5xx"], "ignore": ["501"]}, {500: True, 501: False}),
    ("retried status in an ignored class", {"retry_on": ["503"], "ignore": ["5xx"]}, {503: True, 500: False}),
    ("ignored at equal rank", {"retry_on": ["503"], "ignore": ["503"]}, {503: False}),
    ("class over trigger", {"retry_on": ["webhook_failure"], "ignore": ["5xx"]}, {500: False, 408: True}),
    ("ignored trigger", {"retry_on": ["5xx"], "ignore": ["webhook_failure"]}, {500: True, 408: False}),
    ("final by status", {"retry_on": ["404"]}, {404: True, 403: False, 500: False}),
    ("final by class", {"retry_on": ["4xx"]}, {404: True, 302: False}),
    ("final by trigger", {"retry_on": ["webhook_failure"]}, {404: True, 302: True, 500: True}),
    ("other trigger", {"retry_on": ["timeout", "explicit"]}, {500: False, 404: False}),
]


async def test_retry_on_and_ignore_by_specificity(story: Story, receiver: Receiver) -> None:
    cases = {
        f"{name}: {status}": (status, conditions, expected)
        for name, conditions, retried in CONDITIONS
        for status, expected in retried.items()
    }
    for key, (status, _, _) in cases.items():
        receiver.answer(f"/{key}", status=status)

    ids = await story.run(
        *[story.job(key, retry={**STEADY, **conditions}) for key, (_, conditions, _) in cases.items()]
    )

    assert await story.statuses(ids) == {
        key: "RetryPending" if expected else "Failure" for key, (_, _, expected) in cases.items()
    }


async def test_retry_on_names_codes_and_triggers(story: Story, receiver: Receiver) -> None:
    receiver.answer("/broken", disconnect=True)
    policy = {**STEADY, "retry_on": ["connection_error", "timeout", "E1"], "ignore": ["E2"]}
    ids = await story.run(
        *[story.job(key, retry=policy, timeout=30) for key in ("broken", "silent", "one", "two", "three", "final")]
    )

    await story.fail(ids["one"], code="E1")
    await story.fail(ids["two"], code="E2")
    await story.fail(ids["three"], code="E3")
    await story.fail(ids["final"], code="E1", error_class="final")
    story.clock.advance(30)
    await story.engine.timeout_loop.run_once()

    assert await story.statuses(ids) == {
        "broken": "RetryPending",
        "silent": "RetryPending",
        "one": "RetryPending",
        "two": "Failure",
        "three": "Failure",
        # Named by the policy, even a final failure is retried.
        "final": "RetryPending",
    }
