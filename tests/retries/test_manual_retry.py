"""Retrying a task by hand: now, from where it can be retried; with changes, if they keep the rules."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from perdure.domain.drafts import RevisionDraft
from perdure.domain.errors import Conflict, Invalid, NotFound
from perdure.domain.model import Executor
from perdure.domain.policy import RetryPolicy
from perdure.store.verbs.claim import Claim, claim
from tests.engine.definitions import UNKNOWN, limit, task
from tests.retries.story import Story
from tests.support.receiver import Receiver


def revision(**members: Any) -> RevisionDraft:
    """A request body, read as the HTTP API reads it."""
    return msgspec.convert(members, RevisionDraft)


async def bring_to(story: Story, state: str) -> str:
    """A task in this state, in attempt 0 unless it takes a failure to get there."""
    if state == "Waiting":
        return (await story.run(story.job("parent"), story.job("a", "parent")))["a"]
    if state == "Skipped":
        ids = await story.run(story.job("parent"), story.job("a", {"id": "parent", "condition": "on_failure"}))
        await story.report(ids["parent"])
        return ids["a"]
    id = await story.submit_one(story.job("a"))
    if state == "Claimed":
        soon = story.clock.now() + timedelta(seconds=90)
        await story.instance.store.write(
            lambda session: claim(session, Claim(Executor.WEBHOOK, 1, lease_until=soon, stale=session.now))
        )
    if state in ("Running", "Success", "Failure", "RetryPending"):
        await story.start()
    if state == "Success":
        await story.report(id)
    if state == "Failure":
        await story.fail_for_good(id)
    if state == "RetryPending":
        await story.fail(id)
    if state == "Canceled":
        await story.commands.cancel(id)
    return id


@pytest.mark.parametrize("state", ["Waiting", "Pending", "Claimed", "Running", "Success", "Skipped"])
async def test_it_is_refused_where_there_is_nothing_to_retry(story: Story, state: str) -> None:
    id = await bring_to(story, state)
    before = await story.rows(id)

    with pytest.raises(Conflict, match=f"The task is {state}; only a failed, canceled, parked or retrying") as refused:
        await story.commands.retry(id, revision(timeout=7))

    assert (refused.value.status_label, refused.value.attempt) == (state, 0)
    assert await story.rows(id) == before


async def test_it_is_refused_for_what_does_not_exist(story: Story) -> None:
    with pytest.raises(NotFound, match=f"There is no task {UNKNOWN}"):
        await story.commands.retry(UNKNOWN)
    with pytest.raises(NotFound, match=f"There is no batch {UNKNOWN}"):
        await story.commands.retry_batch(UNKNOWN)


async def test_from_retry_pending_it_drops_the_wait_and_nothing_else(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail(id)
    story.clock.advance(3)

    retried = await story.commands.retry(id)

    assert (retried.status.label, retried.attempt, retried.retry_count) == ("Pending", 1, 1)
    assert (retried.next_retry_at, retried.started_at, retried.failure_reason) == (None, None, None)
    assert story.second(retried.last_updated) == 3
    await story.start()
    assert story.starts("a") == ["start:0", "start:1"]
    (row,) = await story.attempts(id)
    assert (row["delay_source"], row["delay_secs"], row["charged"]) == ("manual", None, True)
    assert story.second(row["next_retry_at"]) == 3
    # The budget goes on where it was.
    await story.fail(id)
    assert await story.progress(id) == ("RetryPending", 2, 2, 23)


async def test_a_paused_task_that_waits_for_its_retry_starts_when_it_is_retried_by_hand(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail(id)
    await story.commands.pause(id)

    await story.commands.retry(id)
    await story.start()

    assert await story.progress(id) == ("Running", 1, 1, None)


@pytest.mark.parametrize("state", ["Failure", "Canceled"])
async def test_from_an_end_it_starts_a_new_attempt_with_a_fresh_budget(story: Story, state: str) -> None:
    id = await story.run_one(story.job("a", on_failure=[story.hook("/failed")], expected_count=5))
    await story.touch(id, new_success=2)
    if state == "Failure":
        await story.fail_until_exhausted(id)
    else:
        for second in (0, 10):
            await story.at(second)
            await story.fail(id)
        await story.at(30)
        await story.commands.cancel(id)
    before = await story.task(id)

    again = await story.commands.retry(id)

    assert (again.status.label, again.attempt, again.retry_count) == ("Pending", before.attempt + 1, 0)
    assert (again.started_at, again.ended_at, again.failure_reason, again.error_class) == (None, None, None, None)
    assert (again.created_at, again.success, again.expected_count) == (before.created_at, 2, 5)
    await story.start()
    final = await story.fail_until_exhausted(id)
    assert (final.attempt, final.retry_count) == (before.attempt + 4, 3)
    rows = await story.attempts(id)
    assert [row["attempt"] for row in rows] == list(range(final.attempt + 1))
    assert (rows[before.attempt]["delay_source"], rows[before.attempt]["charged"]) == ("manual", False)
    assert story.starts("a") == [f"start:{attempt}" for attempt in range(final.attempt + 1)]
    assert f"failure:{final.attempt}" in await story.hooks(id)


async def test_a_task_canceled_while_it_waited_for_its_retry_can_be_retried(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail(id)
    await story.commands.cancel(id)

    await story.commands.retry(id)
    await story.start()

    assert await story.progress(id) == ("Running", 2, 0, None)


async def test_free_waits_are_free_again_after_a_retry_by_hand(story: Story, receiver: Receiver) -> None:
    receiver.answer("/a", status=429, headers={"Retry-After": "20"})
    id = await story.run_one(story.job("a"))
    await story.commands.cancel(id)

    await story.commands.retry(id)

    (row,) = await story.rows(id)
    assert (row["free_waits"], row["worker_losses"], row["last_delay_secs"]) == (0, 0, None)


async def test_a_task_that_a_worker_runs_can_be_retried(story: Story) -> None:
    id = await story.submit_one(task("a"))
    await story.commands.cancel(id)

    again = await story.commands.retry(id)

    assert (again.status.label, again.attempt) == ("Pending", 1)


async def test_two_people_retry_at_once(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail_for_good(id)

    await story.commands.retry(id)
    with pytest.raises(Conflict, match="The task is Pending"):
        await story.commands.retry(id)

    assert (await story.task(id)).attempt == 1


async def test_the_audit_trail_says_who_asked_for_it(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail_for_good(id)
    await story.commands.retry(id)

    events = (await story.client.get(f"/task/{id}/events")).json

    last = events[-1]
    assert (last["from_status"], last["to_status"], last["attempt"]) == ("Failure", "Pending", 1)
    assert last["reason"] == "retried by hand"


# Editing.


@pytest.mark.parametrize("state", ["Failure", "Canceled", "RetryPending"])
async def test_everything_that_can_be_edited(story: Story, receiver: Receiver, state: str) -> None:
    id = await bring_to(story, state)
    call = story.hook("/other")
    call["params"]["body"] = {"corrected": True}

    await story.commands.retry(
        id,
        revision(
            payload={"order": 8},
            metadata={"step": 2},
            timeout=7,
            on_start=call,
            retry={"strategy": "fixed_delay", "delay_secs": 4, "max_retries": 1},
        ),
    )
    await story.start()

    edited = await story.task(id)
    assert json.loads(edited.payload or "") == {"order": 8}
    assert json.loads(edited.metadata or "") == {"step": 2}
    assert edited.timeout == 7
    assert [request.json() for request in receiver.requests_to("/other")] == [{"corrected": True}]
    policy = RetryPolicy.from_json(json.loads(edited.retry_policy or ""))
    assert (policy.delay_secs, policy.max_retries) == (4, 1)
    # The new timeout holds: the attempt is over after 7 seconds.
    story.clock.advance(7)
    await story.engine.timeout_loop.run_once()
    assert (await story.attempts(id))[-1]["message"] == "Timeout"


async def test_what_is_not_edited_stays(story: Story) -> None:
    id = await story.run_one(story.job("a", payload={"order": 7}, metadata={"step": 1}, on_failure=[story.hook("/no")]))
    before = await story.fail_for_good(id)

    after = await story.commands.retry(id, revision(timeout=7))

    for name in ("payload", "metadata", "actions", "retry_policy", "priority", "rules", "lane"):
        assert getattr(after, name) == getattr(before, name)


async def test_other_hooks_stay_when_the_call_changes(story: Story) -> None:
    id = await story.run_one(story.job("a", on_failure=[story.hook("/failed")], on_success=[story.hook("/done")]))
    await story.fail_for_good(id)

    await story.commands.retry(id, revision(on_start=story.hook("/other")))
    await story.start()
    await story.report(id)

    assert await story.hooks(id) == ["failure:0", "success:1"]


async def test_a_task_that_had_no_policy_gets_one(story: Story) -> None:
    id = await story.run_one(story.job("a", retry=None))
    await story.fail(id)

    await story.commands.retry(id, revision(retry={"strategy": "fixed_delay", "delay_secs": 4, "max_retries": 1}))
    await story.start()
    await story.fail(id)

    assert await story.progress(id) == ("RetryPending", 2, 1, 4)


async def test_other_metadata_moves_a_task_to_another_lane(story: Story) -> None:
    rules = [limit("etl", 1, "shard")]
    ids = await story.run(
        story.job("a", kind="etl", metadata={"shard": 1}, rules=rules),
        story.job("b", kind="etl", metadata={"shard": 2}, rules=rules),
    )
    await story.fail_for_good(ids["a"])

    await story.commands.retry(ids["a"], revision(metadata={"shard": 2}))
    await story.start()

    assert await story.statuses(ids) == {"a": "Pending", "b": "Running"}
    await story.report(ids["b"])
    await story.start()
    assert await story.status(ids["a"]) == "Running"


BAD_EDITS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "timeout": ({"timeout": 0}, ["timeout"]),
    "retry": (
        {"retry": {"max_retries": 99, "initial_delay_secs": 0}},
        ["retry.max_retries", "retry.initial_delay_secs"],
    ),
    "unknown policy": ({"retry": "nowhere"}, ["retry"]),
    "url": ({"on_start": {"params": {"url": "ftp://receiver/"}}}, ["on_start.params.url"]),
    "verb": ({"on_start": {"params": {"url": "http://127.0.0.1:1/", "verb": "Fetch"}}}, ["on_start.params.verb"]),
    "metadata of a rule": ({"metadata": {"other": 1}}, ["metadata"]),
    "payload": ({"payload": "x" * 300_000}, ["payload"]),
    "several": ({"timeout": 100_000, "metadata": {}, "retry": "nowhere"}, ["timeout", "metadata", "retry"]),
}


@pytest.mark.parametrize("state", ["Failure", "RetryPending"])
async def test_bad_edits_are_refused_all_at_once_and_change_nothing(story: Story, state: str) -> None:
    ids = await story.run(
        story.job("a", kind="etl", metadata={"shard": 1}, rules=[limit("etl", 1, "shard")]), story.job("child", "a")
    )
    await (story.fail_for_good(ids["a"]) if state == "Failure" else story.fail(ids["a"]))
    before, history = await story.rows(), await story.attempts(ids["a"])

    for name, (members, fields) in BAD_EDITS.items():
        with pytest.raises(Invalid) as refused:
            await story.commands.retry(ids["a"], revision(**members))
        assert sorted({problem.field for problem in refused.value.problems}) == sorted(fields), name

    assert await story.rows() == before
    assert await story.attempts(ids["a"]) == history


async def test_a_worker_task_cannot_be_given_a_call(story: Story) -> None:
    id = await story.submit_one(task("a"))
    await story.commands.cancel(id)

    with pytest.raises(Invalid, match="on_start: cannot be given to a task that a Python worker runs"):
        await story.commands.retry(id, revision(on_start=story.hook("/a")))

    assert await story.status(id) == "Canceled"
