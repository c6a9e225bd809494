"""How the fields of a policy may be spelled, and which values they take."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from perdure.domain.policy import Jitter, OnExhausted, Strategy
from perdure.domain.policy_fields import SPELLINGS
from perdure.domain.policy_parsing import parse_policy
from tests.domain.policies import LIMITS, accept, fields_refused, refuse

EXAMPLES: dict[str, Any] = {
    "strategy": "immediate",
    "max_retries": 4,
    "initial_delay_secs": 7.5,
    "backoff_multiplier": 3,
    "max_delay_secs": 77,
    "delay_secs": 9,
    "schedule": {"attempts": [{"attempt": 1, "delay_hours": 1}]},
    "first_delays": [1, 5],
    "retry_on": ["timeout"],
    "ignore": ["4xx"],
    "jitter": "equal",
    "jitter_ratio": 0.5,
    "expires_at": "2030-01-31T12:00:00Z",
    "expires_after_secs": 60,
    "on_exhausted": "pause",
    "enabled": False,
}
READ: dict[str, Any] = {
    **EXAMPLES,
    "schedule": (3600.0,),
    "first_delays": (1.0, 5.0),
    "retry_on": ("timeout",),
    "ignore": ("4xx",),
    "expires_at": datetime(2030, 1, 31, 12, tzinfo=UTC),
}
ALL_SPELLINGS = [
    (spelling, field) for field, others in SPELLINGS.items() if field != "name" for spelling in (field, *others)
]


@pytest.mark.parametrize(("spelling", "field"), ALL_SPELLINGS)
def test_every_spelling_of_a_field_is_read(spelling: str, field: str) -> None:
    policy = accept({"max_retries": 4} | {spelling: EXAMPLES[field]} if field != "max_retries" else {spelling: 4})

    assert getattr(policy, field) == READ[field]


def test_the_spellings_are_those_that_are_promised() -> None:
    others = {field: set(spellings) for field, spellings in SPELLINGS.items() if spellings}

    assert others == {
        "strategy": {"retry_strategy"},
        "max_retries": {"max_attempts", "maxAttempts"},
        "initial_delay_secs": {"initial_delay_seconds", "initialDelaySeconds"},
        "backoff_multiplier": {"multiplier"},
        "max_delay_secs": {"max_delay_seconds", "maxDelaySeconds"},
        "delay_secs": {"delay_seconds", "delaySeconds"},
        "schedule": {"custom_schedule", "customSchedule"},
        "retry_on": {"retryOn"},
        "ignore": {"ignore_exceptions", "ignoreExceptions"},
        "expires_at": {"expiresAt"},
    }


@pytest.mark.parametrize(("spelling", "field"), [pair for pair in ALL_SPELLINGS if pair[0] != pair[1]])
def test_two_spellings_of_one_field_are_refused(spelling: str, field: str) -> None:
    problems = refuse({"max_retries": 4, field: EXAMPLES[field], spelling: EXAMPLES[field]})

    assert problems == [f"retry.{spelling}: means the same as {field}; give one of them"]


def test_null_is_absent() -> None:
    everything_null = {spelling: None for spelling, _ in ALL_SPELLINGS}

    assert parse_policy(None, "retry", LIMITS, {}) == (None, [])
    assert accept({**everything_null, "name": None, "max_retries": 3}) == accept({"max_retries": 3})
    assert accept({"max_retries": 3, "maxAttempts": None}).max_retries == 3


def test_exponential_is_short_for_exponential_backoff() -> None:
    assert accept({"max_retries": 1, "strategy": "exponential"}).strategy is Strategy.EXPONENTIAL_BACKOFF


@pytest.mark.parametrize(
    ("member", "suggestion"),
    [
        ("max_retry", "max_retries"),
        ("maxRetries", "max_retries"),
        ("backoffMultiplier", "backoff_multiplier"),
        ("initialDelay", "initial_delay_secs"),
        ("retry-on", "retry_on"),
        ("expires", "expires_at"),
        ("stratgy", "strategy"),
    ],
)
def test_an_unknown_field_is_refused_with_a_hint(member: str, suggestion: str) -> None:
    problems = refuse({"max_retries": 1, member: 1})

    assert problems == [f"retry.{member}: is no known field; did you mean {suggestion}?"]


def test_an_unknown_field_like_no_other_is_refused_without_a_hint() -> None:
    assert refuse({"max_retries": 1, "colour": "red"}) == ["retry.colour: is no known field"]


def test_very_many_unknown_fields_are_counted_and_long_ones_cut() -> None:
    problems = refuse({"max_retries": 1, "x" * 10_000: 1, **{f"unknown {number}": 1 for number in range(500)}})

    assert len(problems) == 11
    assert problems[0] == f"retry.{'x' * 80}: is no known field"
    assert problems[-1] == "retry: has 491 more fields that do not exist"


def test_problems_at_the_top_of_a_request_name_the_bare_field() -> None:
    _, problems = parse_policy({"max_retries": 0, "colour": 1, "strategy": "custom"}, "", LIMITS, {})

    assert [problem.field for problem in problems] == ["colour", "max_retries", "schedule"]


@pytest.mark.parametrize("value", [[], [1], 3, 2.5, True, float("nan")])
def test_a_policy_is_an_object_or_a_name(value: object) -> None:
    assert refuse(value) == ["retry: must be an object with the fields of a policy, or the name of one"]


NUMBERS = [
    "max_retries",
    "initial_delay_secs",
    "backoff_multiplier",
    "max_delay_secs",
    "delay_secs",
    "jitter_ratio",
    "expires_after_secs",
]


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize(
    "value",
    [True, "3", "", [3], {}, -1, float("nan"), float("inf"), float("-inf"), 10**400, -(10**400), 10**5000],
    ids=lambda value: str(value)[:12] if not isinstance(value, int) or abs(value) < 10 else "huge",
)
def test_numbers_must_be_finite_numbers_in_range(field: str, value: object) -> None:
    assert fields_refused({"max_retries": 3} | {field: value}) == [f"retry.{field}"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("strategy", "linear"),
        ("strategy", 1),
        ("strategy", ["custom"]),
        ("max_retries", 2.5),
        ("jitter", "some"),
        ("jitter", True),
        ("jitter_ratio", 1.01),
        ("on_exhausted", "stop"),
        ("enabled", 1),
        ("enabled", "true"),
        ("expires_at", "tomorrow"),
        ("expires_at", "2030-01-31T12:00:00"),
        ("expires_at", "0001-01-01T00:00:00+10:00"),
        ("expires_at", 1893456000),
        ("expires_after_secs", 0),
        ("name", 3),
        ("name", ["bank"]),
        ("retry_on", "timeout"),
        ("retry_on", {"timeout": True}),
        ("ignore", "4xx"),
    ],
)
def test_values_that_are_refused(field: str, value: object) -> None:
    assert fields_refused({"max_retries": 3, field: value}) == [f"retry.{field}"]


@pytest.mark.parametrize("field", ["retry_on", "ignore"])
@pytest.mark.parametrize("entry", [None, 3, 503, "", "  ", "6xx", "0xx", "a\x00b", "\ud800", "x" * 256, ["5xx"]])
def test_conditions_that_are_refused(field: str, entry: object) -> None:
    assert fields_refused({"max_retries": 3, field: ["timeout", entry]}) == [f"retry.{field}[1]"]


def test_conditions_are_kept_once_and_in_order() -> None:
    policy = accept({"max_retries": 1, "retry_on": ["timeout", "5XX", "503", "timeout", "app.Error", "5xx"]})

    assert policy.retry_on == ("timeout", "5xx", "503", "app.Error")


def test_nothing_may_be_ignored_but_something_must_be_retried() -> None:
    assert accept({"max_retries": 1, "ignore": []}).ignore == ()
    assert refuse({"max_retries": 1, "retry_on": []}) == [
        "retry.retry_on: must not be empty; leave it out to retry every failure that is not final"
    ]


def test_too_many_conditions_are_refused() -> None:
    assert fields_refused({"max_retries": 1, "retry_on": ["5xx"] * 101}) == ["retry.retry_on"]


@pytest.mark.parametrize(
    "value",
    [
        "2030-01-31T12:00:00Z",
        "2030-01-31t12:00:00z",
        "2030-01-31T13:00:00+01:00",
        datetime(2030, 1, 31, 12, tzinfo=UTC),
        datetime(2030, 1, 31, 7, tzinfo=timezone(timedelta(hours=-5))),
    ],
)
def test_expiry_is_a_moment(value: object) -> None:
    assert accept({"max_retries": 1, "expires_at": value}).expires_at == datetime(2030, 1, 31, 12, tzinfo=UTC)


def test_whole_numbers_may_be_written_with_a_point() -> None:
    policy = accept({"max_retries": 3.0})

    assert policy.max_retries == 3
    assert type(policy.max_retries) is int


def test_defaults() -> None:
    policy = accept({"max_retries": 3})

    assert policy.strategy is Strategy.EXPONENTIAL_BACKOFF
    assert (policy.jitter, policy.jitter_ratio) == (Jitter.PROPORTIONAL, 0.1)
    assert (policy.delay_secs, policy.schedule, policy.first_delays) == (None, None, None)
    assert (policy.retry_on, policy.ignore) == (None, ())
    assert (policy.expires_at, policy.expires_after_secs) == (None, None)
    assert (policy.on_exhausted, policy.enabled, policy.name) == (OnExhausted.FAIL, True, None)


@pytest.mark.parametrize(
    ("strategy", "more", "jitter"),
    [
        ("exponential_backoff", {}, Jitter.PROPORTIONAL),
        ("immediate", {}, Jitter.NONE),
        ("fixed_delay", {"delay_secs": 1}, Jitter.NONE),
        ("custom", {"schedule": [1]}, Jitter.NONE),
    ],
)
def test_only_exponential_delays_are_spread_by_default(strategy: str, more: dict[str, Any], jitter: Jitter) -> None:
    assert accept({"max_retries": 1, "strategy": strategy, **more}).jitter is jitter
