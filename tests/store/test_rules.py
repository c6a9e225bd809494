"""Who may start: rules are checked at the claim and never exceeded."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.domain.drafts import RuleDraft
from perdure.domain.errors import Invalid, PerdureError, Problem
from perdure.domain.rules import Matcher, Measure, Rule
from perdure.store.changes import Row
from perdure.store.verbs import change
from tests.store.drafts import a_task, at_most, work_below
from tests.store.scenario import Scenario


async def test_no_more_run_at_once_than_the_rule_allows(scenario: Scenario) -> None:
    await scenario.submit(*[a_task(key, rules=[at_most(2)]) for key in "abcd"])

    assert await scenario.claim() == ["a", "b"]
    assert await scenario.claim() == []

    await scenario.accept("a", "b")
    assert await scenario.claim() == []

    await scenario.succeed("a")
    assert await scenario.claim() == ["c"]
    await scenario.fail("b")
    assert await scenario.claim() == ["d"]


@pytest.mark.parametrize("ending", ["succeed", "fail", "cancel"])
async def test_every_ending_makes_room(scenario: Scenario, ending: str) -> None:
    await scenario.submit(*[a_task(key, rules=[at_most(1)]) for key in "ab"])
    await scenario.claim()

    await getattr(scenario, ending)("a")

    assert await scenario.claim() == ["b"]


async def test_a_retrying_task_holds_no_slot(scenario: Scenario) -> None:
    retry = {"strategy": "fixed_delay", "delay_secs": 60, "max_retries": 1}
    await scenario.submit(*[a_task(key, rules=[at_most(1)], retry=retry) for key in "ab"])
    await scenario.claim()

    await scenario.fail("a")

    assert await scenario.claim() == ["b"]


async def test_the_same_values_of_fields_share_a_limit(scenario: Scenario) -> None:
    rules = [at_most(1, "job", "customer")]
    await scenario.submit(
        a_task("a1", rules=rules, metadata={"customer": "a", "other": 1}),
        a_task("a2", rules=rules, metadata={"customer": "a", "other": 2}),
        a_task("b1", rules=rules, metadata={"customer": "b"}),
        a_task("b2", rules=rules, metadata={"customer": "b"}),
        a_task("none", rules=rules, metadata={"customer": None}),
    )

    assert await scenario.claim() == ["a1", "b1", "none"]

    await scenario.succeed("a1")
    assert await scenario.claim() == ["a2"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (1, "1", False),
        (1, True, False),
        ({"x": 1, "y": [2.0]}, {"y": [2], "x": 1}, True),
        ([1, 2], [2, 1], False),
        (2**53 + 1, 2**53, False),
        (10**22, 1e22, True),
        (12345678901234567890123, 12345678901234567890123, True),
        ("ä\u2028'\"", "ä\u2028'\"", True),
    ],
)
async def test_values_are_compared_as_json(scenario: Scenario, one: Any, other: Any, same: bool) -> None:
    rules = [at_most(1, "job", "field")]
    await scenario.submit(
        a_task("one", rules=rules, metadata={"field": one}), a_task("other", rules=rules, metadata={"field": other})
    )

    first = await scenario.claim()
    assert first == (["one"] if same else ["one", "other"])
    assert await scenario.claim() == []


async def test_a_rule_may_watch_another_kind(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("backup", kind="backup"), a_task("report", kind="report", rules=[at_most(1, "backup")])
    )
    assert await scenario.claim(kinds=frozenset({"backup"})) == ["backup"]

    assert await scenario.claim() == []

    await scenario.succeed("backup")
    assert await scenario.claim() == ["report"]


async def test_a_rule_on_another_kind_does_not_count_its_own(scenario: Scenario) -> None:
    await scenario.submit(*[a_task(key, kind="report", rules=[at_most(1, "backup")]) for key in "abc"])

    assert await scenario.claim() == ["a", "b", "c"]


async def test_a_rule_holds_only_tasks_that_carry_it(scenario: Scenario) -> None:
    await scenario.submit(a_task("limited", rules=[at_most(1)]), a_task("free 1"), a_task("free 2"))

    assert await scenario.claim() == ["free 1", "free 2", "limited"]


async def test_a_limited_task_waits_for_tasks_of_its_kind_that_carry_no_rule(scenario: Scenario) -> None:
    await scenario.submit(a_task("free", priority=1), a_task("limited", rules=[at_most(1)]))

    assert await scenario.claim() == ["free"]
    await scenario.succeed("free")
    assert await scenario.claim() == ["limited"]


async def test_every_rule_of_a_task_must_hold(scenario: Scenario) -> None:
    rules = [at_most(3), at_most(1, "job", "customer")]
    keys = ["a1", "a2", "b1", "c1", "d1"]
    await scenario.submit(*[a_task(key, rules=rules, metadata={"customer": key[0]}) for key in keys])

    assert await scenario.claim() == ["a1", "b1", "c1"]

    await scenario.succeed("a1")
    assert await scenario.claim() == ["a2"]


async def test_nothing_starts_while_the_work_left_reaches_the_capacity(scenario: Scenario) -> None:
    rules = [work_below(100)]
    await scenario.submit(*[a_task(key, rules=rules, expected_count=60) for key in "abcd"])

    # 0 left, then 60: both below 100; 120 is not.
    assert await scenario.claim() == ["a", "b"]
    await scenario.accept("a", "b")

    await scenario.count("a", success=15, failures=5)
    assert await scenario.claim() == []

    await scenario.count("a", success=1)
    assert await scenario.claim() == ["c"]


async def test_work_done_beyond_what_was_expected_does_not_make_room_for_others(scenario: Scenario) -> None:
    await scenario.submit(*[a_task(key, rules=[work_below(10)], expected_count=10) for key in "ab"])
    assert await scenario.claim() == ["a"]
    await scenario.count("a", success=25)
    await scenario.submit(a_task("c", priority=10, expected_count=10))
    assert await scenario.claim(most=1) == ["c"]

    # `a` has -15 left, which counts as 0; `c` has 10.
    assert await scenario.claim() == []


async def test_a_changed_expected_count_changes_the_work_left(scenario: Scenario) -> None:
    await scenario.submit(*[a_task(key, rules=[work_below(10)], expected_count=10) for key in "ab"])
    await scenario.run("a")
    assert await scenario.claim() == []

    await scenario.edit("a", expected_count=9)

    assert await scenario.claim() == ["b"]


async def test_capacity_apart_by_fields(scenario: Scenario) -> None:
    rules = [work_below(5, "job", "site")]
    await scenario.submit(
        *[a_task(key, rules=rules, metadata={"site": key[0]}, expected_count=5) for key in ("x1", "x2", "y1", "y2")]
    )

    assert await scenario.claim() == ["x1", "y1"]


async def test_limits_of_kinds_from_the_configuration(scenario: Scenario) -> None:
    await scenario.submit(*[a_task(key) for key in "abc"], *[a_task(key, kind="other") for key in "xyz"])
    limits: dict[str, Any] = {"kind_limits": {"job": 2}}

    assert await scenario.claim(**limits) == ["a", "b", "x", "y", "z"]
    assert await scenario.claim(**limits) == []
    await scenario.succeed("a")
    assert await scenario.claim(**limits) == ["c"]


async def test_limits_of_namespaces_from_the_configuration(scenario: Scenario) -> None:
    await scenario.submit(*[a_task(key, kind=key) for key in "abc"], namespace="small")
    await scenario.submit(*[a_task(key, kind=key) for key in "xyz"], namespace="big")
    limits: dict[str, Any] = {"namespace_limits": {"small": 1, "big": 2}}

    assert await scenario.claim(**limits) == ["a", "x", "y"]
    assert await scenario.claim(**limits) == []


async def test_a_namespace_limit_counts_every_kind_and_executor(scenario: Scenario) -> None:
    await scenario.submit(a_task("a", kind="one"), a_task("b", kind="two"))
    await scenario.claim(most=1)

    assert await scenario.claim(namespace_limits={"default": 1}) == []
    assert await scenario.claim(namespace_limits={"default": 2}) == ["b"]


async def test_limits_of_several_lanes_are_counted_together(scenario: Scenario) -> None:
    # Each customer has a lane of its own, and all of them share the limit of the kind.
    rules = [at_most(2, "job", "customer")]
    await scenario.submit(*[a_task(key, rules=rules, metadata={"customer": key}) for key in "abcdef"])

    assert await scenario.claim(kind_limits={"job": 4}) == ["a", "b", "c", "d"]
    assert await scenario.claim(kind_limits={"job": 4}) == []


async def test_rules_of_live_tasks_can_be_replaced(scenario: Scenario) -> None:
    batch_id = await scenario.submit(
        *[a_task(key, rules=[at_most(1)]) for key in "abcd"], a_task("other", kind="other", rules=[at_most(1, "other")])
    )
    await scenario.claim(kinds=frozenset({"job"}))

    assert await _replace_rules(scenario, batch_id, Rule(Measure.TASKS, Matcher("job", "Running", ()), 3)) == 4

    assert await scenario.claim(kinds=frozenset({"job"})) == ["b", "c"]


async def test_rules_that_one_task_cannot_keep_change_none(scenario: Scenario) -> None:
    batch_id = await scenario.submit(
        a_task("has", rules=[at_most(1)], metadata={"customer": 1}), a_task("lacks", rules=[at_most(1)])
    )
    before = await scenario.column("has", "rules")

    refused = await _replace_rules(scenario, batch_id, Rule(Measure.TASKS, Matcher("job", "Running", ("customer",)), 3))

    assert isinstance(refused, Invalid)
    assert str(refused) == f"task 'lacks' ({scenario.ids['lacks']}): the task's metadata has no field 'customer'"
    assert await scenario.column("has", "rules") == before


async def _replace_rules(scenario: Scenario, batch_id: str, rule: Rule) -> int | PerdureError:
    def parse(row: Row) -> tuple[list[Rule], list[Problem]]:
        if rule.matcher.fields and not row["metadata"]:
            return [], [Problem("", "the task's metadata has no field 'customer'")]
        return [rule], []

    (result,) = await scenario.store.write(
        lambda session: change.change_rules(session, [change.ChangeRules(batch_id, "job", parse)])
    )
    return result


async def test_changed_metadata_puts_a_task_under_other_limits(scenario: Scenario) -> None:
    rules: list[RuleDraft] = [at_most(1, "job", "customer")]
    await scenario.submit(*[a_task(key, rules=rules, metadata={"customer": "a"}) for key in ("one", "two")])
    assert await scenario.claim() == ["one"]
    assert await scenario.claim() == []

    await scenario.edit("two", metadata={"customer": "b"})

    assert await scenario.claim() == ["two"]
