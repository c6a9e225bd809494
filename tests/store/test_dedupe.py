"""A new task that repeats an existing one is not created."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.domain.drafts import BatchDraft, MatcherDraft
from perdure.domain.states import Status
from perdure.store.interface import Session
from perdure.store.verbs.submit import Submit, Submitted, submit
from tests.store.drafts import a_task, unless
from tests.store.scenario import Scenario
from tests.store.states import one_in_each_state


async def _created(scenario: Scenario, *tasks: Any) -> list[str]:
    return [task.key for task in (await scenario.submit_for_answer(list(tasks))).tasks]


async def test_a_task_with_a_twin_is_skipped(scenario: Scenario) -> None:
    await scenario.submit(a_task("first", metadata={"order": 7}))
    again = unless("Pending", "order")

    assert await _created(scenario, a_task("twin", metadata={"order": 7}, dedupe_strategy=again)) == []
    assert await _created(scenario, a_task("other", metadata={"order": 8}, dedupe_strategy=again)) == ["other"]


async def test_nothing_is_stored_if_every_task_is_a_twin(scenario: Scenario) -> None:
    await scenario.submit(a_task("first"))

    submitted = await scenario.submit_for_answer([a_task("twin", dedupe_strategy=unless("Pending"))])

    assert submitted.tasks == []
    assert len(await scenario.query("SELECT id FROM batch")) == 1


@pytest.mark.parametrize("status", list(Status), ids=str)
async def test_the_status_must_be_the_one_that_was_named(scenario: Scenario, status: Status) -> None:
    await one_in_each_state(scenario)
    for named in Status:
        matchers = unless(named.label)
        if named is not status:
            matchers[0].kind = "no such kind"
        created = await _created(scenario, a_task(f"new {named}", kind="fresh", dedupe_strategy=matchers))
        assert created == ([] if named is status else [f"new {named}"])


async def test_paused_is_a_status_of_its_own(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.pause("task")

    assert await _created(scenario, a_task("a", kind="a", dedupe_strategy=unless("Pending"))) == ["a"]
    assert await _created(scenario, a_task("b", kind="b", dedupe_strategy=unless("Paused"))) == []


async def test_any_matcher_is_enough(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.run("task")
    matchers = [*unless("Pending"), *unless("Running")]

    assert await _created(scenario, a_task("twin", dedupe_strategy=matchers)) == []


@pytest.mark.parametrize(
    ("existing", "wanted", "twin"),
    [
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": None}, {"a": None}, True),
        ({}, {"a": None}, False),
        (None, {"a": 1}, False),
        ({"a": {"x": [1, 2], "y": 0}}, {"a": {"y": 0, "x": [1, 2]}}, True),
        ({"a": "'; DROP TABLE task; --"}, {"a": "'; DROP TABLE task; --"}, True),
    ],
)
async def test_values_are_compared_as_json(
    scenario: Scenario, existing: dict[str, Any] | None, wanted: dict[str, Any], twin: bool
) -> None:
    await scenario.submit(a_task("existing", metadata=existing))

    created = await _created(scenario, a_task("new", metadata=wanted, dedupe_strategy=unless("Pending", "a")))

    assert created == ([] if twin else ["new"])


async def test_a_twin_in_the_same_batch(scenario: Scenario) -> None:
    again = unless("Pending", "order")

    created = await _created(
        scenario,
        a_task("a", metadata={"order": 1}),
        a_task("b", metadata={"order": 1}, dedupe_strategy=again),
        a_task("c", metadata={"order": 2}, dedupe_strategy=again),
        a_task("d", metadata={"order": 2}, dedupe_strategy=again),
    )

    assert created == ["a", "c"]


async def test_nobody_waits_for_a_task_that_was_skipped(scenario: Scenario) -> None:
    await scenario.submit(a_task("existing"))

    created = await _created(
        scenario,
        a_task("twin", dedupe_strategy=unless("Pending")),
        a_task("other", kind="other"),
        a_task("child", kind="other", after="twin"),
        a_task("join", kind="other", after=["twin", "other"]),
    )

    assert created == ["other", "child", "join"]
    assert await scenario.statuses("child", "join") == {"child": "pending", "join": "waiting"}
    assert await scenario.column("join", "waits") == 1
    assert not (await scenario.task("child")).linked


async def test_what_was_prepared_once_can_be_stored_after_a_lost_race(scenario: Scenario) -> None:
    """A transaction that lost a race is run again, and may then find no twin."""
    await scenario.submit(a_task("existing"))
    tasks = [a_task("twin", dedupe_strategy=unless("Pending")), a_task("child", kind="other", after="twin")]
    prepared = scenario.prepare(BatchDraft(tasks))

    async def lose(session: Session) -> None:
        (submitted,) = await submit(session, [Submit(prepared)])
        assert isinstance(submitted, Submitted)
        assert [task.key for task in submitted.tasks] == ["child"]
        raise RuntimeError("lost the race")

    with pytest.raises(RuntimeError, match="lost the race"):
        await scenario.store.write(lose)
    await scenario.cancel("existing")
    (submitted,) = await scenario.store.write(lambda session: submit(session, [Submit(prepared)]))

    assert isinstance(submitted, Submitted)
    assert [(task.key, task.status, task.waits) for task in submitted.tasks] == [
        ("twin", Status.PENDING, 0),
        ("child", Status.WAITING, 1),
    ]


async def test_racing_submissions_create_one(scenario: Scenario) -> None:
    others = [await scenario.another(f"instance {number}") for number in range(4)]
    again = unless("Pending", "order")

    created = await asyncio.gather(
        *[
            _created(one, a_task("task", metadata={"order": 1}, dedupe_strategy=again))
            for one in others
            for _ in range(2)
        ]
    )

    assert sum(len(keys) for keys in created) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [(["a", "b"], ["a", "b"]), (["a", "b"], ["b", "a"]), (["a"], ["a", "b"]), (["a", "b"], ["a"])],
    ids=["same", "other order", "fewer first", "more first"],
)
async def test_submissions_in_one_transaction_create_one(
    scenario: Scenario, first: list[str], second: list[str]
) -> None:
    items = []
    for fields in (first, second):
        draft = a_task("task", metadata={"a": 1, "b": 2}, dedupe_strategy=[MatcherDraft("job", "Pending", fields)])
        items.append(Submit(scenario.prepare(BatchDraft([draft]))))

    results = await scenario.store.write(lambda session: submit(session, items))

    assert [len(result.tasks) for result in results if isinstance(result, Submitted)] == [1, 0]
