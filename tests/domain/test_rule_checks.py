"""The checks of rules and dedupe matchers, which look at the task that carries them."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.domain.checks import check_dedupe, parse_rules
from perdure.domain.drafts import MatcherDraft, RuleDraft
from perdure.domain.errors import Problem
from perdure.domain.rules import Matcher, Measure, Rule


def rules_of(*drafts: RuleDraft, expected_count: int | None = None, **metadata: Any) -> tuple[list[Rule], list[str]]:
    problems: list[Problem] = []
    found = parse_rules(problems, "rules", drafts, metadata, expected_count)
    return found, [str(problem) for problem in problems]


MATCHER = MatcherDraft("job", "Running", [])


@pytest.mark.parametrize(
    ("draft", "measure"),
    [
        (RuleDraft(MATCHER, "Concurrency", max_concurrency=2), Measure.TASKS),
        (RuleDraft(MATCHER, "Concurency", max_concurency=2), Measure.TASKS),
        (RuleDraft(MATCHER, max_concurency=2), Measure.TASKS),
        (RuleDraft(MATCHER, "Capacity", max_capacity=2), Measure.WORK),
        (RuleDraft(MATCHER, max_capacity=2), Measure.WORK),
        (RuleDraft(MatcherDraft("job"), max_capacity=2), Measure.WORK),
    ],
)
def test_every_spelling_of_a_rule(draft: RuleDraft, measure: Measure) -> None:
    assert rules_of(draft, expected_count=5) == ([Rule(measure, Matcher("job", "Running", ()), 2)], [])


@pytest.mark.parametrize(
    ("draft", "problem"),
    [
        (RuleDraft(MATCHER), "rules[0]: must have exactly one of max_concurrency and max_capacity"),
        (
            RuleDraft(MATCHER, max_concurrency=1, max_capacity=1),
            "rules[0]: must have exactly one of max_concurrency and max_capacity",
        ),
        (RuleDraft(MATCHER, "Speed", max_concurrency=1), "rules[0].type: must be 'Concurrency' or 'Capacity'"),
        (
            RuleDraft(MATCHER, "Capacity", max_concurrency=1),
            "rules[0].max_concurrency: does not belong to a rule of type Capacity",
        ),
        (RuleDraft(MATCHER, max_concurrency=0), "rules[0].max_concurrency: must be between 1 and 1000000000, is 0"),
        (RuleDraft(MatcherDraft(""), max_concurrency=1), "rules[0].matcher.kind: must not be empty"),
        (
            RuleDraft(MatcherDraft("job", "Pending"), max_concurrency=1),
            "rules[0].matcher.status: must be 'Running'",
        ),
        (
            RuleDraft(MatcherDraft("job", None, ["customer"]), max_concurrency=1),
            "rules[0].matcher.fields: the task's metadata has no field 'customer'",
        ),
        (RuleDraft(MATCHER, max_capacity=1), "rules[0]: a Capacity rule needs expected_count on the task"),
    ],
)
def test_rules_that_make_no_sense(draft: RuleDraft, problem: str) -> None:
    assert rules_of(draft) == ([], [problem])


def test_a_field_whose_value_is_null_is_there() -> None:
    draft = RuleDraft(MatcherDraft("job", None, ["customer"]), max_concurrency=1)

    assert rules_of(draft, customer=None)[1] == []


def test_too_many_rules_or_fields() -> None:
    many = RuleDraft(MatcherDraft("job", None, ["a"] * 21), max_concurrency=1)

    assert rules_of(*[RuleDraft(MATCHER, max_concurrency=1)] * 21)[1] == ["rules: must be at most 20"]
    assert rules_of(many, a=1)[1] == ["rules[0].matcher.fields: must be at most 20"]


@pytest.mark.parametrize(
    ("matcher", "problem"),
    [
        (MatcherDraft("job"), "dedupe[0].status: must be one of"),
        (MatcherDraft("job", "Gone"), "dedupe[0].status: must be one of"),
        (MatcherDraft("", "Pending"), "dedupe[0].kind: must not be empty"),
        (
            MatcherDraft("job", "Pending", ["x"]),
            "dedupe[0].fields: the task's metadata has no field 'x'",
        ),
    ],
)
def test_dedupe_matchers_that_make_no_sense(matcher: MatcherDraft, problem: str) -> None:
    problems: list[Problem] = []

    check_dedupe(problems, "dedupe", [matcher], {})

    (found,) = problems
    assert str(found).startswith(problem)


def test_too_many_matchers() -> None:
    problems: list[Problem] = []

    check_dedupe(problems, "dedupe", [MatcherDraft("job", "Pending")] * 21, {})

    assert [str(problem) for problem in problems] == ["dedupe: must be at most 20"]
