"""Rules between the fields of a policy, and all broken ones at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.policy import RetryLimits, RetryPolicy
from perdure.domain.policy_fields import SPELLINGS
from perdure.domain.policy_parsing import parse_policy
from tests.domain.policies import (
    LIMITS,
    accept,
    backoff_limits,
    fields_refused,
    json_values,
    raw_policies,
    refuse,
)


def test_every_broken_rule_is_named_at_once_in_the_spelling_of_the_user() -> None:
    problems = refuse(
        {
            "maxAttempts": 11,
            "initialDelaySeconds": 0,
            "multiplier": 0.5,
            "maxDelaySeconds": 4000,
            "delaySeconds": -1,
            "customSchedule": [],
            "retryOn": [],
            "ignoreExceptions": [""],
            "jitter": "some",
            "jitter_ratio": 2,
            "expiresAt": "soon",
            "expires_after_secs": 0,
            "on_exhausted": "explode",
            "enabled": "yes",
            "colour": "red",
        }
    )

    assert sorted(problem.split(":")[0].removeprefix("retry.") for problem in problems) == [
        "colour",
        "customSchedule",
        "delaySeconds",
        "enabled",
        "expiresAt",
        "expires_after_secs",
        "ignoreExceptions[0]",
        "initialDelaySeconds",
        "jitter",
        "jitter_ratio",
        "maxAttempts",
        "maxDelaySeconds",
        "multiplier",
        "on_exhausted",
        "retryOn",
    ]


def test_messages_say_what_is_allowed() -> None:
    assert refuse({"max_retries": 11, "max_delay_secs": 4000, "initial_delay_secs": 0.5}) == [
        "retry.max_retries: must be between 1 and 10 (RETRY_MAX_RETRIES_LIMIT), is 11",
        "retry.initial_delay_secs: must be at least 1, is 0.5",
        "retry.max_delay_secs: must be between 0 and 3600 (RETRY_MAX_DELAY_LIMIT), is 4000",
    ]


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({}, "retry.max_retries: is required: how often to retry, 1 to 10"),
        (
            {"max_retries": 1, "strategy": "fixed_delay"},
            "retry.delay_secs: is required for strategy 'fixed_delay'",
        ),
        ({"max_retries": 1, "strategy": "custom"}, "retry.schedule: is required for strategy 'custom'"),
    ],
)
def test_what_a_strategy_cannot_do_without(raw: dict[str, Any], problem: str) -> None:
    assert refuse(raw) == [problem]


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (
            {"initial_delay_secs": 301},
            "retry.initial_delay_secs: must be at most max_delay_secs, which is 300 by default; is 301",
        ),
        (
            {"max_delay_secs": 4},
            "retry.max_delay_secs: must be at least initial_delay_secs, which is 5 by default; is 4",
        ),
        (
            {"initialDelaySeconds": 20, "maxDelaySeconds": 10},
            "retry.maxDelaySeconds: must be at least initial_delay_secs, which is 20; is 10",
        ),
    ],
)
def test_defaults_take_part_in_validation(raw: dict[str, Any], problem: str) -> None:
    assert refuse({"max_retries": 1, **raw}) == [problem]


@pytest.mark.parametrize(
    "raw",
    [
        {"initial_delay_secs": 1},
        {"initial_delay_secs": 1.5, "max_delay_secs": 1.5},
        {"initial_delay_secs": 3600, "max_delay_secs": 3600},
        {"initial_delay_secs": 300},
        {"strategy": "immediate", "initial_delay_secs": 0},
        {"strategy": "immediate", "initial_delay_secs": 400},
        {"strategy": "fixed_delay", "delay_secs": 0},
        {"strategy": "fixed_delay", "delay_secs": 3600, "max_delay_secs": 1},
        {"backoff_multiplier": 1},
        {"backoff_multiplier": 1e308},
        {"jitter_ratio": 0},
        {"jitter_ratio": 1},
        {"expires_after_secs": 1e300},
        {"strategy": "immediate", "initial_delay_secs": 1e300},
    ],
)
def test_values_at_their_limits_are_accepted(raw: dict[str, Any]) -> None:
    accept({"max_retries": 10, **raw})


def test_the_delay_limit_holds_for_fixed_delays() -> None:
    raw = {"max_retries": 1, "strategy": "fixed_delay", "delay_secs": 3600.5}

    assert fields_refused(raw) == ["retry.delay_secs"]


def test_a_delay_limit_below_the_defaults_lowers_them() -> None:
    policy = accept({"max_retries": 1}, RetryLimits(max_delay_limit=2))

    assert (policy.initial_delay_secs, policy.max_delay_secs) == (2, 2)


@pytest.mark.parametrize("raw", [{"enabled": False}, {"enabled": False, "strategy": "custom"}])
def test_a_disabled_policy_needs_nothing_else(raw: dict[str, Any]) -> None:
    assert not accept(raw).enabled


def test_what_a_disabled_policy_says_must_still_be_right() -> None:
    assert fields_refused({"enabled": False, "max_retries": -1, "jitter": 3}) == [
        "retry.max_retries",
        "retry.jitter",
    ]


def test_a_policy_as_shown_in_answers() -> None:
    shown = accept(
        {
            "strategy": "custom",
            "maxAttempts": 2,
            "schedule": ["7d", {"delay_minutes": 1.5}, 0.25],
            "retryOn": ["5xx"],
            "expiresAt": "2030-01-31T13:00:00.5+01:00",
        }
    ).to_json()

    assert shown == {
        "strategy": "custom",
        "max_retries": 2,
        "initial_delay_secs": 5,
        "backoff_multiplier": 2.0,
        "max_delay_secs": 300,
        "delay_secs": None,
        "schedule": [604800, 90, 0.25],
        "retry_on": ["5xx"],
        "ignore": [],
        "jitter": "none",
        "jitter_ratio": 0.1,
        "expires_at": "2030-01-31T12:00:00.500000Z",
        "expires_after_secs": None,
        "on_exhausted": "fail",
        "enabled": True,
        "name": None,
    }


@given(raw_policies())
def test_what_was_stored_is_read_back(raw: dict[str, Any]) -> None:
    policy = accept(raw)

    assert RetryPolicy.from_json(policy.to_json()) == policy


@given(raw_policies())
def test_what_an_answer_shows_can_be_sent_back(raw: dict[str, Any]) -> None:
    policy = accept(raw)

    assert accept(policy.to_json()) == policy


@given(backoff_limits(), st.integers(1, 10))
def test_what_an_answer_shows_can_be_sent_back_whatever_the_defaults(limits: RetryLimits, max_retries: int) -> None:
    policy = accept({"max_retries": max_retries}, limits)

    assert accept(policy.to_json(), limits) == policy
    assert RetryPolicy.from_json(policy.to_json()) == policy


_ANY_FIELD = st.sampled_from([spelling for field, others in SPELLINGS.items() for spelling in (field, *others)])


@given(
    value=st.one_of(
        json_values(),
        st.dictionaries(st.one_of(_ANY_FIELD, st.text(max_size=20)), json_values(), max_size=8),
        raw_policies().flatmap(
            lambda raw: st.dictionaries(_ANY_FIELD, json_values(), max_size=2).map(lambda more: {**raw, **more})
        ),
    ),
    named=st.dictionaries(
        st.sampled_from(["bank", "slow", ""]),
        st.one_of(raw_policies(), st.dictionaries(_ANY_FIELD, json_values(), max_size=3)),
        max_size=2,
    ),
)
def test_any_json_is_a_policy_or_a_list_of_problems(value: object, named: dict[str, dict[str, Any]]) -> None:
    policy, problems = parse_policy(value, "tasks[0].retry", LIMITS, named)

    assert value is None or (policy is None) == bool(problems)
    for problem in problems:
        assert problem.field.startswith("tasks[0].retry")
        str(problem).encode()
    if policy is not None:
        assert RetryPolicy.from_json(policy.to_json()) == policy
