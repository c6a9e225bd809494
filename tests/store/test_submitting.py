"""Storing a batch: whole or not at all, and once for each idempotency key."""

from __future__ import annotations

import asyncio
import json

import pytest

from perdure.domain.drafts import BatchDraft
from perdure.domain.errors import KeyReused, StillProcessing
from perdure.domain.model import Task
from perdure.domain.states import Status
from perdure.store.verbs import keep
from perdure.store.verbs.submit import SubmissionKey, Submit, Submitted, submit
from tests.store.drafts import a_task, unless
from tests.store.scenario import Scenario


def a_key(body: str = "body", key: str = "key") -> SubmissionKey:
    def render(batch_id: str, tasks: list[Task]) -> bytes:
        return f"{batch_id}: {', '.join(task.key for task in tasks)}".encode()

    return SubmissionKey(key, body, render)


async def test_a_task_begins_pending_or_waiting(scenario: Scenario) -> None:
    await scenario.submit(a_task("a"), a_task("b", after="a"), a_task("c", after=["a", "b"]))

    assert await scenario.statuses() == {"a": "pending", "b": "waiting", "c": "waiting"}
    assert [await scenario.column(key, "waits") for key in "abc"] == [0, 1, 2]


async def test_everything_that_was_given_is_stored(scenario: Scenario) -> None:
    metadata = {"a": [1, 2.5, None, True], "ü": {"\u2028": "'\"\\"}, "big": 2**63 - 1, "tiny": 1e-300}
    await scenario.submit(
        a_task("task", payload={"x": [None]}, metadata=metadata, timeout=7, priority=-3, expected_count=9), name="night"
    )

    task = await scenario.task("task")
    assert (task.timeout, task.priority, task.expected_count) == (7, -3, 9)
    assert (task.key, task.name, task.kind, task.namespace) == ("task", "task task", "job", "default")
    assert (task.attempt, task.retry_count, task.success, task.failures) == (0, 0, 0, 0)
    assert task.created_at == task.last_updated == scenario.clock.now()
    assert json.loads(task.metadata or "") == metadata
    assert json.loads(task.payload or "") == {"x": [None]}


async def test_the_same_key_and_body_get_the_first_answer_again(scenario: Scenario) -> None:
    first = await scenario.submit_for_answer([a_task("a")], a_key())
    scenario.clock.advance("23h")

    again = await scenario.submit_for_answer([a_task("a")], a_key())

    assert again.batch_id == first.batch_id
    assert again.answer == f"{first.batch_id}: a".encode()
    assert len(await scenario.query("SELECT id FROM task")) == 1


async def test_the_answer_to_a_batch_of_twins_is_kept_as_well(scenario: Scenario) -> None:
    await scenario.submit(a_task("existing"))
    twin = a_task("twin", dedupe_strategy=unless("Pending"))
    await scenario.submit_for_answer([twin], a_key())
    await scenario.cancel("existing")

    again = await scenario.submit_for_answer([twin], a_key())

    assert again.answer is not None
    assert again.answer.endswith(b": ")
    assert len(await scenario.query("SELECT id FROM task")) == 1


async def test_the_same_key_with_another_body_is_refused(scenario: Scenario) -> None:
    await scenario.submit_for_answer([a_task("a")], a_key("one"))

    with pytest.raises(KeyReused, match="used before with another body"):
        await scenario.submit_for_answer([a_task("b")], a_key("two"))

    assert list(await scenario.statuses()) == ["a"]


async def test_keys_are_apart_from_each_other(scenario: Scenario) -> None:
    await scenario.submit_for_answer([a_task("a")], a_key(key="one"))
    await scenario.submit_for_answer([a_task("b")], a_key(key="two"))

    assert set(await scenario.statuses()) == {"a", "b"}


async def test_a_key_is_free_again_once_its_answer_is_forgotten(scenario: Scenario) -> None:
    await scenario.submit_for_answer([a_task("a")], a_key("one"))
    scenario.clock.advance("24h")
    scenario.clock.advance(1)
    before = scenario.clock.now()
    await scenario.store.write(lambda session: keep.forget_old_submissions(session, before))

    await scenario.submit_for_answer([a_task("b")], a_key("two"))

    assert set(await scenario.statuses()) == {"a", "b"}


async def test_a_submission_that_fails_leaves_its_key_free(scenario: Scenario) -> None:
    def fail_to_render(_batch_id: str, _tasks: list[Task]) -> bytes:
        raise RuntimeError("cannot render")

    with pytest.raises(RuntimeError, match="cannot render"):
        await scenario.submit_for_answer([a_task("a")], SubmissionKey("key", "body", fail_to_render))

    assert await scenario.query("SELECT id FROM task") == []
    await scenario.submit_for_answer([a_task("a")], a_key())
    assert await scenario.status("a") is Status.PENDING


async def test_racing_submissions_with_one_key_store_one_batch(scenario: Scenario) -> None:
    others = [await scenario.another(f"instance {number}") for number in range(4)]

    results = await asyncio.gather(
        *[one.submit_for_answer([a_task("a")], a_key()) for one in others for _ in range(2)], return_exceptions=True
    )

    batches = {result.batch_id for result in results if not isinstance(result, BaseException)}
    refusals = [result for result in results if isinstance(result, BaseException)]
    assert len(batches) == 1
    assert all(isinstance(refusal, StillProcessing) for refusal in refusals)
    assert len(await scenario.query("SELECT id FROM task")) == 1


async def test_one_key_twice_in_one_transaction(scenario: Scenario) -> None:
    items = [Submit(scenario.prepare(BatchDraft([a_task(key)])), a_key()) for key in ("a", "b")]

    first, second = await scenario.store.write(lambda session: submit(session, items))

    assert isinstance(first, Submitted)
    assert isinstance(second, StillProcessing)
