"""What the outcome of a call means, and what an answer says about itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.classify import classify, failure_from_answer, failure_from_report
from perdure.domain.model import ErrorClass, Failure, FailureTrigger
from tests.domain.policies import NOW, json_values

FINAL, RETRYABLE, RATE_LIMITED = ErrorClass.FINAL, ErrorClass.RETRYABLE, ErrorClass.RATE_LIMITED


@pytest.mark.parametrize(
    ("status", "delay_requested", "expected"),
    [
        (200, False, None),
        (204, True, None),
        (299, False, None),
        (429, False, RATE_LIMITED),
        (429, True, RATE_LIMITED),
        (503, True, RATE_LIMITED),
        (503, False, RETRYABLE),
        (408, False, RETRYABLE),
        (408, True, RETRYABLE),
        (425, False, RETRYABLE),
        (500, False, RETRYABLE),
        (500, True, RETRYABLE),
        (502, False, RETRYABLE),
        (599, False, RETRYABLE),
        (301, False, FINAL),
        (304, False, FINAL),
        (400, False, FINAL),
        (404, True, FINAL),
        (410, False, FINAL),
        (101, False, FINAL),
        (999, False, FINAL),
    ],
)
def test_statuses_by_default(status: int, delay_requested: bool, expected: ErrorClass | None) -> None:
    assert classify(status, None, {}, delay_requested=delay_requested) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("connection_error", RETRYABLE),
        ("dns_error", RETRYABLE),
        ("tls_error", RETRYABLE),
        ("connect_timeout", RETRYABLE),
        ("read_timeout", RETRYABLE),
        ("bad_response", RETRYABLE),
        ("too_large", RETRYABLE),
        ("unexpected_error", RETRYABLE),
        ("blocked_address", FINAL),
        ("invalid_request", FINAL),
    ],
)
def test_calls_without_an_answer_by_default(code: str, expected: ErrorClass) -> None:
    assert classify(None, code, {}) is expected


@pytest.mark.parametrize(
    ("overrides", "status", "code", "expected"),
    [
        ({"404": "retryable"}, 404, None, RETRYABLE),
        ({"404": "retryable"}, 410, None, FINAL),
        ({"4xx": "retryable"}, 410, None, RETRYABLE),
        ({"4xx": "retryable", "410": "final"}, 410, None, FINAL),
        ({"4xx": "retryable"}, 429, None, RATE_LIMITED),
        ({"429": "final"}, 429, None, FINAL),
        ({"5xx": "final"}, 500, None, FINAL),
        ({"500": "rate_limited"}, 500, None, RATE_LIMITED),
        ({"404": "success"}, 404, None, None),
        ({"3xx": "success"}, 302, None, None),
        ({"202": "retryable"}, 202, None, RETRYABLE),
        ({"dns_error": "final"}, None, "dns_error", FINAL),
        ({"blocked_address": "retryable"}, None, "blocked_address", RETRYABLE),
        ({"quota": "rate_limited"}, 400, "quota", RATE_LIMITED),
        ({"quota": "final", "503": "retryable"}, 503, "quota", FINAL),
    ],
)
def test_the_configured_table_comes_first_and_the_most_specific_entry_wins(
    overrides: dict[str, str], status: int | None, code: str | None, expected: ErrorClass | None
) -> None:
    assert classify(status, code, overrides) is expected


def answered(
    status: int | None,
    body: Any = None,
    headers: dict[str, str] | None = None,
    overrides: dict[str, str] | None = None,
    error_code: str | None = None,
) -> Failure:
    text = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    message = "no answer" if status is None else f"HTTP {status}"
    return failure_from_answer(status, headers or {}, text, error_code, message, NOW, overrides or {})


def test_an_answer_without_words() -> None:
    assert answered(500) == Failure(FailureTrigger.WEBHOOK_FAILURE, RETRYABLE, "HTTP 500", 500, None, None)


def test_no_answer() -> None:
    assert answered(None, error_code="dns_error") == Failure(
        FailureTrigger.WEBHOOK_FAILURE, RETRYABLE, "no answer", None, None, "dns_error"
    )


def test_an_answer_that_says_all() -> None:
    body = {"error_class": "rate_limited", "retry_after": 120, "code": "quota", "message": "too many"}

    assert answered(400, body) == Failure(
        FailureTrigger.WEBHOOK_FAILURE, RATE_LIMITED, "HTTP 400: too many", 400, 120.0, "quota"
    )


@pytest.mark.parametrize("error_class", list(ErrorClass))
@pytest.mark.parametrize("status", [302, 404, 429, 500])
def test_the_class_that_an_answer_names_counts_more_than_any_table(error_class: ErrorClass, status: int) -> None:
    overrides = {str(status): "final"}

    assert answered(status, {"error_class": error_class.value}, overrides=overrides).error_class is error_class


def test_a_wait_in_the_header_makes_503_rate_limited() -> None:
    failure = answered(503, headers={"retry-after": "7"})

    assert (failure.error_class, failure.retry_after_secs) == (RATE_LIMITED, 7)


def test_a_wait_in_the_body_goes_before_the_one_in_the_header() -> None:
    failure = answered(503, {"retry_after": 3}, headers={"retry-after": "7"})

    assert (failure.error_class, failure.retry_after_secs) == (RATE_LIMITED, 3)


def test_a_wait_in_the_body_that_is_none_leaves_the_header() -> None:
    assert answered(429, {"retry_after": -3}, headers={"retry-after": "7"}).retry_after_secs == 7


def test_the_code_that_an_answer_names_is_looked_up_in_the_table() -> None:
    failure = answered(400, {"code": "quota"}, overrides={"quota": "retryable"})

    assert (failure.error_class, failure.code) == (RETRYABLE, "quota")


def test_an_answer_that_broke_off_is_not_heard() -> None:
    failure = answered(None, {"error_class": "final"}, headers={"retry-after": "7"}, error_code="read_timeout")

    assert (failure.error_class, failure.retry_after_secs, failure.code) == (RETRYABLE, None, "read_timeout")


def test_an_accepted_answer_that_is_a_failure_all_the_same_can_be_retried() -> None:
    assert answered(200).error_class is RETRYABLE


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"sorry",
        b"\xff\xfe",
        b"[1, 2]",
        b'"final"',
        b"null",
        b'{"error_class": "fin',
        b"[" * 60_000,
        b'{"retry_after": ' + b"9" * 5000 + b"}",
        b'{"error_class": "Final", "retry_after": true, "code": 3, "message": ["x"]}',
        b'{"error_class": {}, "retry_after": [], "code": " ", "message": " "}',
        b'{"error_class": null, "retry_after": null, "code": null, "message": null}',
    ],
)
def test_a_body_that_says_nothing_usable_says_nothing(body: bytes) -> None:
    assert answered(500, body) == answered(500)


def test_words_of_the_other_side_are_cut_and_cleaned() -> None:
    failure = answered(500, {"code": "x" * 999, "message": "a\x00b\ud800" + "é" * 9999})

    assert failure.code == "x" * 255
    assert failure.message.startswith("HTTP 500: ab?é")
    assert len(failure.message.encode()) <= 4096


@given(
    status=st.one_of(st.none(), st.integers(100, 999)),
    headers=st.dictionaries(st.sampled_from(["Retry-After", "ratelimit-reset"]), st.text()),
    body=st.one_of(
        st.binary(),
        st.dictionaries(st.sampled_from(["error_class", "retry_after", "code", "message"]), json_values()).map(
            lambda said: json.dumps(said).encode()
        ),
    ),
)
def test_any_answer_is_read(status: int | None, headers: dict[str, str], body: bytes) -> None:
    failure = failure_from_answer(status, headers, body, None, "HTTP", NOW, {})

    assert failure.retry_after_secs is None or 0 <= failure.retry_after_secs <= 365 * 86_400
    failure.message.encode()
    assert failure.code is None or failure.code.encode()


@pytest.mark.parametrize(
    ("error_class", "retry_after", "code", "expected"),
    [
        (None, None, None, (RETRYABLE, None)),
        ("final", None, None, (FINAL, None)),
        ("retryable", 30, None, (RETRYABLE, 30)),
        ("rate_limited", 30, None, (RATE_LIMITED, 30)),
        ("rate_limited", None, None, (RATE_LIMITED, None)),
        ("rate_limited", "30", None, (RATE_LIMITED, 30)),
        ("rate_limited", "soon", None, (RATE_LIMITED, None)),
        (None, 30, None, (RATE_LIMITED, 30)),
        (None, -30, None, (RETRYABLE, None)),
        (None, None, "ValueError", (FINAL, None)),
        ("retryable", None, "ValueError", (RETRYABLE, None)),
        (None, None, "OSError", (RETRYABLE, None)),
    ],
)
def test_reports_of_receivers_and_workers(
    error_class: str | None, retry_after: Any, code: str | None, expected: tuple[ErrorClass, float | None]
) -> None:
    failure = failure_from_report("it broke", error_class, retry_after, code, NOW, {"ValueError": "final"})

    assert failure.trigger is FailureTrigger.EXPLICIT
    assert (failure.error_class, failure.retry_after_secs) == expected
    assert (failure.message, failure.code) == ("it broke", code)
