"""The rules that a submission or a report must keep: every broken one is named, all at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.domain import checks
from perdure.domain.checks import (
    check_batch,
    condition_of,
    start_moment,
)
from perdure.domain.drafts import (
    ActionDraft,
    BatchDraft,
    DependencyDraft,
    TaskDraft,
    WebhookDraft,
)
from perdure.domain.errors import Problem
from perdure.domain.model import Condition

NOW = datetime(2030, 1, 31, 12, 0, tzinfo=UTC)
CALL = ActionDraft(WebhookDraft("https://receiver.example/"))


def a_draft(key: str = "a", **fields: Any) -> TaskDraft:
    return TaskDraft(**{"id": key, "name": "name", "kind": "kind", **fields})


def problems_of(*tasks: TaskDraft, **batch: Any) -> list[str]:
    return [str(problem) for problem in check_batch(BatchDraft(list(tasks), **batch))]


def waits_for(*parents: str) -> list[DependencyDraft]:
    return [DependencyDraft(parent) for parent in parents]


def test_a_good_batch_has_no_problems() -> None:
    assert problems_of(a_draft("a"), a_draft("b", dependencies=waits_for("a")), name="night", namespace="team") == []
    assert problems_of() == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"id": ""}, "tasks[0].id: must not be empty"),
        ({"id": "x" * 256}, "tasks[0].id: must have at most 255 characters, has 256"),
        ({"name": "  "}, "tasks[0].name: must not be empty"),
        ({"name": "a\x00b"}, "tasks[0].name: must not contain the NUL character"),
        ({"kind": "k" * 101}, "tasks[0].kind: must have at most 100 characters, has 101"),
        ({"timeout": 0}, "tasks[0].timeout: must be between 1 and 86400, is 0"),
        ({"timeout": 86_401}, "tasks[0].timeout: must be between 1 and 86400, is 86401"),
        ({"priority": -1001}, "tasks[0].priority: must be between -1000 and 1000, is -1001"),
        ({"priority": 1001}, "tasks[0].priority: must be between -1000 and 1000, is 1001"),
        ({"expected_count": -1}, "tasks[0].expected_count: must be between 0 and 2147483647, is -1"),
        ({"completion": "maybe"}, "tasks[0].completion: must be 'callback' or 'response'"),
        (
            {"completion": "response"},
            "tasks[0].completion: 'response' needs an on_start webhook whose answer is the result",
        ),
        ({"on_cancel": [CALL] * 21}, "tasks[0].on_cancel: must be at most 20 actions"),
        (
            {"run_at": "2030-01-01T00:00:00Z", "delay": 5},
            "tasks[0].delay: cannot stand beside run_at; give one of them",
        ),
    ],
)
def test_each_broken_rule_of_a_task_is_named(fields: dict[str, Any], problem: str) -> None:
    assert problems_of(a_draft(**fields)) == [problem]


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "x" * 255},
        {"timeout": 1},
        {"timeout": 86_400},
        {"priority": 1000},
        {"expected_count": 0},
        {"completion": "response", "on_start": CALL},
        {"on_success": [CALL] * 20},
    ],
)
def test_the_edges_are_allowed(fields: dict[str, Any]) -> None:
    assert problems_of(a_draft(**fields)) == []


def test_all_problems_of_all_tasks_come_at_once() -> None:
    found = problems_of(
        a_draft("a", timeout=0, name=""), a_draft("b", kind=""), a_draft("c", dependencies=waits_for("nobody")), name=""
    )

    assert found == [
        "name: must not be empty",
        "tasks[0].name: must not be empty",
        "tasks[0].timeout: must be between 1 and 86400, is 0",
        "tasks[1].kind: must not be empty",
        "tasks[2].dependencies[0].id: unknown dependency 'nobody'; no task of this batch has that id",
    ]


def test_a_batch_that_is_too_big_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "TASKS_PER_BATCH", 2)

    assert problems_of(*[a_draft("") for _ in range(3)]) == ["tasks: must be at most 2, are 3; split the batch"]


# Wiring.


@pytest.mark.parametrize(
    ("tasks", "problem"),
    [
        ([a_draft("a"), a_draft("a")], "tasks[1].id: duplicate id 'a', already used by tasks[0]"),
        (
            [a_draft("a", dependencies=waits_for("a"))],
            "tasks[0].dependencies[0].id: task 'a' cannot depend on itself",
        ),
        (
            [a_draft("a"), a_draft("b", dependencies=waits_for("a", "a"))],
            "tasks[1].dependencies[1].id: duplicate dependency 'a'",
        ),
        (
            [a_draft("a", dependencies=waits_for("b")), a_draft("b", dependencies=waits_for("a"))],
            "tasks[0].dependencies: dependencies form a cycle: a -> b -> a",
        ),
    ],
    ids=["duplicate", "itself", "twice", "cycle"],
)
def test_wiring(tasks: list[TaskDraft], problem: str) -> None:
    assert problems_of(*tasks) == [problem]


def test_dependencies_may_come_in_any_order() -> None:
    assert problems_of(a_draft("b", dependencies=waits_for("a")), a_draft("a")) == []


def test_a_long_cycle_is_shown_in_part() -> None:
    size = 100
    tasks = [a_draft(str(n), dependencies=waits_for(str((n + 1) % size))) for n in range(size)]

    (problem,) = problems_of(*tasks)

    assert problem.count(" -> ") == checks.SHOWN_CYCLE - 1
    assert " -> … -> " in problem


def test_too_many_dependencies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "DEPENDENCIES_PER_TASK", 1)
    tasks = [a_draft("a"), a_draft("b"), a_draft("c", dependencies=waits_for("a", "b"))]

    assert problems_of(*tasks) == ["tasks[2].dependencies: must be at most 1, are 2"]


@pytest.mark.parametrize(
    ("requires_success", "condition", "means"),
    [
        (None, None, Condition.ON_SUCCESS),
        (True, None, Condition.ON_SUCCESS),
        (False, None, Condition.ALWAYS),
        (None, "on_failure", Condition.ON_FAILURE),
        (None, "always", Condition.ALWAYS),
        (True, "on_success", Condition.ON_SUCCESS),
        (False, "always", Condition.ALWAYS),
    ],
)
def test_what_a_dependency_waits_for(requires_success: bool | None, condition: str | None, means: Condition) -> None:
    dependency = DependencyDraft("a", requires_success, condition)

    assert problems_of(a_draft("a"), a_draft("b", dependencies=[dependency])) == []
    assert condition_of(dependency) is means


@pytest.mark.parametrize(
    ("requires_success", "condition", "problem"),
    [
        (None, "sometimes", "must be 'on_success', 'always' or 'on_failure'"),
        (True, "always", "contradicts requires_success, which means 'on_success'"),
        (False, "on_success", "contradicts requires_success, which means 'always'"),
        (True, "on_failure", "contradicts requires_success, which means 'on_success'"),
    ],
)
def test_conditions_that_make_no_sense(requires_success: bool | None, condition: str, problem: str) -> None:
    dependency = DependencyDraft("a", requires_success, condition)

    found = problems_of(a_draft("a"), a_draft("b", dependencies=[dependency]))

    assert found == [f"tasks[1].dependencies[0].condition: {problem}"]


# When it may start.


def moment_of(**fields: Any) -> tuple[datetime | None, list[str]]:
    problems: list[Problem] = []
    moment = start_moment(problems, "task", a_draft(**fields), NOW)
    return moment, [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("fields", "moment"),
    [
        ({}, None),
        ({"delay": 0}, None),
        ({"delay": 90}, NOW + timedelta(seconds=90)),
        ({"delay": "1h30m"}, NOW + timedelta(minutes=90)),
        ({"run_at": "2030-02-01T00:00:00Z"}, datetime(2030, 2, 1, tzinfo=UTC)),
        ({"run_at": "2030-02-01T00:00:00+02:00"}, datetime(2030, 1, 31, 22, tzinfo=UTC)),
        ({"run_at": "2020-02-01T00:00:00Z"}, datetime(2020, 2, 1, tzinfo=UTC)),
    ],
)
def test_the_moment_before_which_a_task_may_not_start(fields: dict[str, Any], moment: datetime | None) -> None:
    assert moment_of(**fields) == (moment, [])


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"run_at": "tomorrow"}, "task.run_at: must be an RFC 3339 time such as 2030-01-31T12:00:00Z"),
        ({"run_at": "2030-02-01T00:00:00"}, "task.run_at: must name its time zone, for example by a final Z"),
        ({"run_at": "0001-01-01T00:00:00+23:59"}, "task.run_at: is out of range"),
        ({"delay": "soon"}, "task.delay: 'soon' is no duration; write for example '90s', '1h30m' or '7d'"),
        ({"delay": -1}, "task.delay: must be zero or more seconds"),
        ({"delay": 10**12}, "task.delay: must be at most ten years"),
    ],
)
def test_moments_that_make_no_sense(fields: dict[str, Any], problem: str) -> None:
    assert moment_of(**fields) == (None, [problem])
