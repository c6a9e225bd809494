"""How long the other side asks to wait."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.requested_delay import LONGEST_REQUESTED_SECS, read_delay, requested_delay
from tests.domain.policies import NOW, json_values, moments

EPOCH = int(NOW.timestamp())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("120", 120),
        (" 120 ", 120),
        ("1.5", 1.5),
        ("007", 7),
        ("Thu, 31 Jan 2030 12:02:00 GMT", 120),
        ("Thursday, 31-Jan-30 12:02:00 GMT", 120),
        ("Thu Jan 31 12:02:00 2030", 120),
        ("Thu, 31 Jan 2030 12:00:00 GMT", 0),
        ("1000000000000", LONGEST_REQUESTED_SECS),
        ("9" * 5000, LONGEST_REQUESTED_SECS),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_REQUESTED_SECS),
        ("-1", None),
        ("+5", None),
        ("1e3", None),
        ("nan", None),
        ("inf", None),
        ("٣", None),
        ("", None),
        (" ", None),
        ("soon", None),
        ("10, 20", None),
        ("5 seconds", None),
        ("2030-01-31T12:02:00Z", None),
        ("Thu, 31 Jan 2030 11:59:59 GMT", None),
        ("Thu, 31 Jan 1970 12:00:00 GMT", None),
        ("Thu, 99 Jan 2030 12:02:00 GMT", None),
        ("Thu, 31 Foo 2030 12:02:00 GMT", None),
        ("Thu, 31 Jan 0000 12:02:00 GMT", None),
        ("Thu, 31 Jan 2030 99:99:99 GMT", None),
    ],
)
def test_retry_after(text: str, expected: float | None) -> None:
    assert requested_delay({"Retry-After": text}, NOW) == expected


@pytest.mark.parametrize("name", ["RateLimit-Reset", "X-RateLimit-Reset", "x-ratelimit-reset"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30", 30),
        ("0", 0),
        (str(EPOCH + 45), 45),
        (f"{EPOCH + 45}.5", 45.5),
        (str(EPOCH), 0),
        (str(EPOCH - 1), None),
        (str((EPOCH + 45) * 1000), LONGEST_REQUESTED_SECS),
        ("1000000000", LONGEST_REQUESTED_SECS),
        ("1000000001", None),
        ("-5", None),
        ("Thu, 31 Jan 2030 12:02:00 GMT", None),
        ("30;w=60", None),
    ],
)
def test_resets(name: str, text: str, expected: float | None) -> None:
    assert requested_delay({name: text}, NOW) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"content-type": "5"}, None),
        ({"retry-after": "1", "ratelimit-reset": "2", "x-ratelimit-reset": "3"}, 1),
        ({"ratelimit-reset": "2", "x-ratelimit-reset": "3"}, 2),
        ({"retry-after": "soon", "ratelimit-reset": "2"}, 2),
        ({"retry-after": "-1", "ratelimit-reset": "-2", "x-ratelimit-reset": "3"}, 3),
        ({"retry-after": "0", "ratelimit-reset": "2"}, 0),
        ({"RETRY-AFTER": "4"}, 4),
    ],
)
def test_which_header_counts(headers: dict[str, str], expected: float | None) -> None:
    assert requested_delay(headers, NOW) == expected


_ALMOST_DATES = st.from_regex(r"\A[A-Z][a-z]{2}, [0-9]{2} (Jan|Feb|Dec|Foo) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT\Z")


@given(st.one_of(st.text(), _ALMOST_DATES, json_values()), moments())
def test_any_value_is_a_wait_or_none(value: object, now: datetime) -> None:
    delay = read_delay(value, now)

    assert delay is None or 0 <= delay <= LONGEST_REQUESTED_SECS


@given(st.dictionaries(st.sampled_from(["Retry-After", "RateLimit-Reset"]), st.text()), moments())
def test_any_headers_ask_for_a_wait_or_for_none(headers: dict[str, str], now: datetime) -> None:
    delay = requested_delay(headers, now)

    assert delay is None or 0 <= delay <= LONGEST_REQUESTED_SECS
