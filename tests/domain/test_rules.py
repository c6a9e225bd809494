"""Who may start: the arithmetic of limits and lanes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.rules import (
    Candidate,
    Limit,
    Matcher,
    Measure,
    Occupancy,
    Rule,
    Usage,
    Watch,
    lane_of,
    limits_of,
    remaining_work,
    values_key,
)


def a_rule(limit: int = 1, kind: str = "job", *fields: str, measure: Measure = Measure.TASKS) -> Rule:
    return Rule(measure, Matcher(kind, "Running", fields), limit)


def a_candidate(
    id: str,
    rules: list[Rule],
    kind: str = "job",
    remaining: int = 0,
    metadata: dict[str, Any] | None = None,
    **given: Any,
) -> Candidate:
    found = metadata or {}
    limits = limits_of(kind, "default", rules, found, given.get("kinds", {}), given.get("namespaces", {}))
    return Candidate(id, 0, kind, "default", found, remaining, limits)


@pytest.mark.parametrize(
    ("measure", "bound", "tasks", "work", "room"),
    [
        (Measure.TASKS, 3, 0, 99, 3),
        (Measure.TASKS, 3, 2, 99, 1),
        (Measure.TASKS, 3, 3, 0, 0),
        (Measure.TASKS, 3, 5, 0, 0),
        (Measure.WORK, 10, 99, 0, None),
        (Measure.WORK, 10, 0, 9, None),
        (Measure.WORK, 10, 0, 10, 0),
        (Measure.WORK, 10, 0, 11, 0),
    ],
)
def test_the_room_under_a_limit(measure: Measure, bound: int, tasks: int, work: int, room: int | None) -> None:
    limit = Limit(Watch("job", None, ()), "[]", measure, bound)

    assert Usage(tasks, work).room(limit) == room


def test_a_limit_on_another_kind_leaves_room_for_all_or_none() -> None:
    limit = Limit(Watch("other", None, ()), "[]", Measure.TASKS, 2, counts_itself=False)

    assert Usage(tasks=1).room(limit) is None
    assert Usage(tasks=2).room(limit) == 0


@pytest.mark.parametrize(
    ("expected", "success", "failures", "left"), [(10, 3, 2, 5), (10, 10, 0, 0), (10, 9, 9, 0), (None, 1, 1, 0)]
)
def test_the_work_left_is_never_below_zero(expected: int | None, success: int, failures: int, left: int) -> None:
    assert remaining_work(expected, success, failures) == left


def test_limits_come_from_rules_kind_and_namespace() -> None:
    rules = [a_rule(3, "job", "customer"), a_rule(100, "other", measure=Measure.WORK)]

    limits = limits_of("job", "small", rules, {"customer": 7}, {"job": 5, "other": 1}, {"small": 9, "big": 1})

    assert limits == [
        Limit(Watch("job", None, ("customer",)), "[7]", Measure.TASKS, 3),
        Limit(Watch("other", None, ()), "[]", Measure.WORK, 100, counts_itself=False),
        Limit(Watch("job", None, ()), "[]", Measure.TASKS, 5),
        Limit(Watch(None, "small", ()), "[]", Measure.TASKS, 9),
    ]


@pytest.mark.parametrize("measure", list(Measure))
def test_a_rule_is_stored_and_read(measure: Measure) -> None:
    rule = a_rule(7, "job", "a", "b", measure=measure)

    assert Rule.from_json(rule.to_json()) == rule


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (0, -0.0, True),
        (1, "1", False),
        (1, True, False),
        (None, "null", False),
        (10**22, 1e22, True),
        (2**53, 2**53 + 1, False),
        ({"a": 1, "b": [1.0]}, {"b": [1], "a": 1.0}, True),
        ([1, 2], [2, 1], False),
        ("ä", "a\u0308", False),
    ],
)
def test_values_are_compared_as_json(one: Any, other: Any, same: bool) -> None:
    assert (values_key({"f": one}, ["f"]) == values_key({"f": other}, ["f"])) is same


def test_a_missing_value_is_null_and_the_order_of_fields_counts() -> None:
    assert values_key({}, ["f"]) == values_key({"f": None}, ["f"]) == "[null]"
    assert values_key({"a": 1, "b": 2}, ["a", "b"]) != values_key({"a": 1, "b": 2}, ["b", "a"])


# Lanes.


def test_tasks_that_no_limit_can_tell_apart_share_a_lane() -> None:
    rules = [a_rule(1, "job", "customer")]
    lane = lane_of("webhook", "default", "job", rules, {"customer": 1, "note": "x"})

    assert lane == lane_of("webhook", "default", "job", rules, {"customer": 1.0, "note": "y"})
    assert -(2**63) <= lane < 2**63


@pytest.mark.parametrize(
    "other",
    [
        ("worker", "default", "job", [a_rule(1, "job", "customer")], {"customer": 1}),
        ("webhook", "elsewhere", "job", [a_rule(1, "job", "customer")], {"customer": 1}),
        ("webhook", "default", "other", [a_rule(1, "job", "customer")], {"customer": 1}),
        ("webhook", "default", "job", [a_rule(2, "job", "customer")], {"customer": 1}),
        ("webhook", "default", "job", [a_rule(1, "job", "customer", measure=Measure.WORK)], {"customer": 1}),
        ("webhook", "default", "job", [a_rule(1, "job", "customer")], {"customer": 2}),
        ("webhook", "default", "job", [a_rule(1, "job", "customer"), a_rule(9)], {"customer": 1}),
        ("webhook", "default", "job", [], {"customer": 1}),
    ],
    ids=["executor", "namespace", "kind", "limit", "measure", "value", "further rule", "no rule"],
)
def test_whatever_a_limit_can_see_makes_another_lane(other: tuple[str, str, str, list[Rule], dict[str, Any]]) -> None:
    assert lane_of(*other) != lane_of("webhook", "default", "job", [a_rule(1, "job", "customer")], {"customer": 1})


kinds = st.sampled_from(["job", "other"])
values = st.sampled_from([0, 1, 1.0, "1", None])
metadata = st.fixed_dictionaries({"a": values, "b": values})
rules = st.lists(
    st.builds(
        lambda measure, kind, fields, limit: Rule(measure, Matcher(kind, "Running", tuple(fields)), limit),
        st.sampled_from(Measure),
        kinds,
        st.lists(st.sampled_from(["a", "b"]), unique=True, max_size=2),
        st.integers(1, 4),
    ),
    max_size=3,
)


@given(kinds, rules, metadata, kinds, rules, metadata)
def test_lanes_are_equal_if_and_only_if_the_limits_are(
    kind: str, own: list[Rule], data: dict[str, Any], kind2: str, own2: list[Rule], data2: dict[str, Any]
) -> None:
    same_limits = kind == kind2 and limits_of(kind, "n", own, data, {}, {}) == limits_of(
        kind2, "n", own2, data2, {}, {}
    )

    assert (lane_of("webhook", "n", kind, own, data) == lane_of("webhook", "n", kind2, own2, data2)) == same_limits


# Admission.


def test_candidates_are_admitted_in_order_while_there_is_room() -> None:
    rules = [a_rule(2)]

    admitted = Occupancy().admit([a_candidate(id, rules) for id in "abc"])

    assert [candidate.id for candidate in admitted] == ["a", "b"]


def test_one_that_may_not_start_does_not_hold_up_the_next() -> None:
    watch = Watch("job", None, ())
    busy = Occupancy({(watch, "[]"): Usage(tasks=1)})

    admitted = busy.admit(
        [a_candidate("blocked", [a_rule(1)]), a_candidate("free", []), a_candidate("wide", [a_rule(3)])]
    )

    assert [candidate.id for candidate in admitted] == ["free", "wide"]


def test_the_work_of_those_admitted_counts_for_the_next() -> None:
    rules = [a_rule(10, measure=Measure.WORK)]

    admitted = Occupancy().admit([a_candidate(id, rules, remaining=6) for id in "abc"])

    assert [candidate.id for candidate in admitted] == ["a", "b"]


def test_configured_limits_hold_across_rules() -> None:
    candidates = [a_candidate(str(n), [a_rule(1, "job", "c")], metadata={"c": n}, kinds={"job": 2}) for n in range(4)]

    assert [candidate.id for candidate in Occupancy().admit(candidates)] == ["0", "1"]


candidates = st.lists(
    st.builds(
        lambda kind, own, data, remaining: Candidate(
            "", 0, kind, "default", data, remaining, limits_of(kind, "default", own, data, {"job": 3}, {"default": 6})
        ),
        kinds,
        rules,
        metadata,
        st.integers(0, 3),
    ),
    max_size=12,
)


def _used(limit: Limit, started: list[Candidate]) -> int:
    """What a limit counts among tasks that run, added up the long way."""
    counted = [
        one
        for one in started
        if limit.watch.covers(one.kind, one.namespace) and limit.key == values_key(one.metadata, limit.watch.fields)
    ]
    return len(counted) if limit.measure is Measure.TASKS else sum(one.remaining for one in counted)


def _occupied_by(running: list[Candidate], asking: list[Candidate]) -> Occupancy:
    """Usage under every watch that the asking tasks look at, as the database would report it."""
    occupancy = Occupancy()
    for limit in {limit for one in asking for limit in one.limits}:
        usage = occupancy.of(limit)
        counted = [
            one
            for one in running
            if limit.watch.covers(one.kind, one.namespace) and limit.key == values_key(one.metadata, limit.watch.fields)
        ]
        usage.tasks, usage.work = len(counted), sum(one.remaining for one in counted)
    return occupancy


@given(candidates, candidates)
def test_no_limit_is_exceeded_and_nobody_is_passed_over(running: list[Candidate], asking: list[Candidate]) -> None:
    admitted = _occupied_by(running, asking).admit(asking)

    started = list(running)
    for candidate in asking:
        may_start = all(_used(limit, started) < limit.bound for limit in candidate.limits)
        assert may_start == any(candidate is one for one in admitted)
        if may_start:
            started.append(candidate)


@given(candidates, candidates, st.integers(0, 5))
def test_the_room_of_a_lane_is_never_less_than_what_is_admitted(
    running: list[Candidate], asking: list[Candidate], most: int
) -> None:
    for candidate in asking:
        room = _occupied_by(running, [candidate]).room(candidate.limits, most)
        admitted = _occupied_by(running, [candidate]).admit([candidate] * most)
        assert len(admitted) <= room <= most
