"""Policies that are named in the configuration, and fields beside the name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure.domain.policy import Strategy
from tests.domain.policies import accept, refuse

NAMED: dict[str, dict[str, Any]] = {
    "bank": {"strategy": "custom", "maxAttempts": 8, "schedule": ["1h", "7d"], "expires_after_secs": 1e7},
    "slow": {"max_retries": 3, "initial_delay_secs": 60, "retry_on": ["5xx"], "jitter": "full"},
}


@pytest.mark.parametrize("value", ["bank", {"name": "bank"}])
def test_a_name_stands_for_its_policy(value: object) -> None:
    policy = accept(value, named=NAMED)

    assert policy == replace(accept(NAMED["bank"]), name="bank")


@pytest.mark.parametrize("spelling", ["max_retries", "max_attempts", "maxAttempts"])
def test_fields_beside_the_name_override_it_in_any_spelling(spelling: str) -> None:
    policy = accept({"name": "bank", spelling: 2, "on_exhausted": "pause"}, named=NAMED)

    assert policy.max_retries == 2
    assert policy.on_exhausted == "pause"
    assert policy.schedule == (3600.0, 604800.0)


def test_null_beside_the_name_overrides_nothing() -> None:
    assert accept({"name": "slow", "retry_on": None}, named=NAMED).retry_on == ("5xx",)


def test_another_strategy_leaves_the_rest_unused() -> None:
    policy = accept({"name": "bank", "strategy": "fixed_delay", "delay_secs": 5}, named=NAMED)

    assert policy.strategy is Strategy.FIXED_DELAY


def test_an_expiry_beside_the_name_replaces_the_other_kind_of_expiry() -> None:
    policy = accept({"name": "bank", "expires_at": "2030-01-31T12:00:00Z"}, named=NAMED)

    assert policy.expires_after_secs is None
    assert policy.expires_at is not None


def test_a_delay_beside_the_name_replaces_its_list_of_first_delays() -> None:
    named = {"odd": {"max_retries": 3, "first_delays": [1, 5, 30]}}

    assert accept("odd", named=named).first_delays == (1.0, 5.0, 30.0)
    assert accept({"name": "odd", "initial_delay_secs": 2}, named=named).first_delays is None


def test_rules_hold_for_the_whole() -> None:
    assert refuse({"name": "slow", "max_delay_secs": 30}, named=NAMED) == [
        "retry.max_delay_secs: must be at least initial_delay_secs, which is 60; is 30"
    ]


@pytest.mark.parametrize(
    ("value", "field"),
    [("bnak", "retry"), ({"name": "bnak"}, "retry.name"), ("", "retry"), ("BANK", "retry")],
)
def test_an_unknown_name_is_refused_with_the_known_ones(value: Any, field: str) -> None:
    name = value if isinstance(value, str) else value["name"]

    assert refuse(value, named=NAMED) == [f"{field}: there is no policy named {name!r}; there are: bank, slow"]


def test_an_unknown_name_where_none_is_known() -> None:
    assert refuse("bank") == ["retry: there is no policy named 'bank'; none is configured"]


def test_of_very_many_names_some_are_listed() -> None:
    named = {f"policy{number:03}": NAMED["slow"] for number in range(120)}

    (problem,) = refuse("bank", named=named)

    assert problem.endswith("policy018, policy019 and 100 more")


def test_fields_beside_an_unknown_name_are_checked_but_none_is_missed() -> None:
    assert refuse({"name": "bnak", "max_attempts": 0}, named=NAMED) == [
        "retry.name: there is no policy named 'bnak'; there are: bank, slow",
        "retry.max_attempts: must be between 1 and 10, is 0",
    ]


def test_problems_of_the_named_policy_say_whose_they_are() -> None:
    named = {"bank": {"max_retries": 99, "schedule": [{"delay_days": "x"}], "colour": 1}}

    assert refuse({"name": "bank"}, named=named) == [
        "retry.name: policy 'bank': colour is no known field",
        "retry.name: policy 'bank': max_retries must be between 1 and 10 (RETRY_MAX_RETRIES_LIMIT), is 99",
        "retry.name: policy 'bank': schedule[0].delay_days must be a number",
    ]


def test_a_named_policy_cannot_name_another() -> None:
    named = {"a": {"name": "b"}, "b": {"name": "a"}}

    assert refuse("a", named=named)[0] == "retry: policy 'a': names another policy itself; write its fields out"


def test_the_name_is_shown_and_can_be_sent_back() -> None:
    policy = accept("slow", named=NAMED)

    assert policy.to_json()["name"] == "slow"
    assert accept(policy.to_json(), named=NAMED) == policy
