"""Execution retry: a batch that ended with a failure is run again as a whole, by the policy of the batch."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.store.interface import Session
from tests.retries.batches import BY_THE_MINUTE, batch, live_on, repetitions, run_batch, tasks_of
from tests.retries.story import Story
from tests.support.receiver import Receiver

ONCE: dict[str, Any] = {"strategy": "immediate", "max_retries": 1}


async def test_a_failed_batch_is_run_again_with_its_definition_and_context(story: Story, receiver: Receiver) -> None:
    call = story.hook("/a")
    call["params"]["body"] = {"order": 7}
    id, ids = await run_batch(
        story,
        story.job("a", retry=None, on_start=call, metadata={"step": 1}, timeout=600),
        story.job("child", "a"),
        name="nightly",
        namespace="acme",
        context={"tenant": 5},
    )
    await story.fail(ids["a"])

    await live_on(story, 0)
    shown = await batch(story, id)
    assert (shown["retry_state"], shown["next_retry_at"]) == ("scheduled", "2030-01-01T00:01:00Z")
    assert (shown["retry_of"], shown["attempt"], shown["retry"]["max_retries"]) == (None, 0, 2)
    await live_on(story, 59.9)
    assert await repetitions(story, id) == []
    await live_on(story, 60)

    (again,) = await repetitions(story, id)
    repeated = await batch(story, again)
    assert (repeated["retry_of"], repeated["attempt"]) == (id, 1)
    assert (repeated["name"], repeated["namespace"], repeated["context"]) == ("nightly", "acme", {"tenant": 5})
    assert (await batch(story, id))["retry_state"] == "retrying"
    assert (await batch(story, id))["next_retry_at"] is None
    new = await tasks_of(story, again)
    assert set(new) == {"a", "child"}
    assert not set(new.values()) & set(ids.values())
    started = await story.task(new["a"])
    assert (started.status.label, started.timeout, started.attempt, started.metadata) == (
        "Running",
        600,
        0,
        (await story.task(ids["a"])).metadata,
    )
    assert [request.json() for request in receiver.requests_to("/a")] == [{"order": 7}, {"order": 7}]
    # The first one is left as it ended.
    assert await story.statuses(ids) == {"a": "Failure", "child": "Failure"}

    await story.finish(new.values())
    await live_on(story, 70)
    assert (await batch(story, id))["retry_state"] == "completed"
    await live_on(story, 100_000)
    assert len(await repetitions(story, id)) == 1


async def test_a_batch_that_succeeds_is_not_run_again(story: Story) -> None:
    id, ids = await run_batch(story, story.job("a"), story.job("child", "a"))
    await live_on(story, 0)
    assert (await batch(story, id))["retry_state"] == "open"

    await story.finish(ids.values())
    await live_on(story, 0)

    assert (await batch(story, id))["retry_state"] == "completed"
    await live_on(story, 100_000)
    assert await repetitions(story, id) == []


async def test_retries_of_the_tasks_come_first_and_the_last_task_is_waited_for(story: Story) -> None:
    id, ids = await run_batch(
        story, story.job("retried"), story.job("failed", retry=None), story.job("slow", timeout=9999)
    )
    await story.fail(ids["retried"])
    await story.fail(ids["failed"])
    for second in (0, 10):
        await live_on(story, second)
        assert (await batch(story, id))["retry_state"] == "open"
    await story.report(ids["retried"])
    await live_on(story, 20)
    assert (await batch(story, id))["retry_state"] == "open"

    await story.at(500)
    await story.report(ids["slow"])
    await live_on(story, 500)

    shown = await batch(story, id)
    assert (shown["retry_state"], shown["next_retry_at"]) == ("scheduled", "2030-01-01T00:09:20Z")


async def test_a_parked_task_holds_its_batch(story: Story) -> None:
    id, ids = await run_batch(
        story, story.job("a", retry={**ONCE, "on_exhausted": "pause"}), story.job("b", retry=None)
    )
    await story.fail(ids["b"])
    await story.fail_until_exhausted(ids["a"])

    await live_on(story, 100)

    assert (await batch(story, id))["retry_state"] == "open"


async def test_a_final_failure_is_not_run_again(story: Story, caplog: pytest.LogCaptureFixture) -> None:
    id, ids = await run_batch(story, story.job("a"), story.job("b", retry=None))
    await story.fail(ids["b"])
    await story.fail_for_good(ids["a"])

    await live_on(story, 0)

    assert (await batch(story, id))["retry_state"] == "failed"
    (record,) = [record for record in caplog.records if record.getMessage() == "a batch failed; it is not run again"]
    assert record.__dict__["fields"] == {"batch": id, "attempt": 0, "reason": "final"}
    await live_on(story, 100_000)
    assert await repetitions(story, id) == []


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ({"retry_on": ["E1"]}, "E1", True),
        ({"retry_on": ["E1"]}, "E2", False),
        ({"ignore": ["E1"]}, "E1", False),
        ({"expires_after_secs": 60}, None, True),
        ({"expires_after_secs": 59}, None, False),
        ({"enabled": False}, None, False),
    ],
)
async def test_the_policy_of_the_batch_decides(
    story: Story, policy: dict[str, Any], code: str | None, again: bool
) -> None:
    id, ids = await run_batch(story, story.job("a", retry=None), retry={**BY_THE_MINUTE, **policy})
    await story.fail(ids["a"], code=code)

    await live_on(story, 0)
    await live_on(story, 60)

    assert len(await repetitions(story, id)) == again


async def test_repetitions_are_exhausted(story: Story) -> None:
    id, ids = await run_batch(story, story.job("a", retry=None))
    await story.fail(ids["a"])
    await live_on(story, 0)

    for number in (1, 2):
        await live_on(story, 60 * number)
        again = (await repetitions(story, id))[-1]
        assert (await batch(story, again))["attempt"] == number
        await story.fail((await tasks_of(story, again))["a"], f"failed again, number {number}")
        await live_on(story, 60 * number)

    assert (await batch(story, id))["retry_state"] == "failed"
    await live_on(story, 100_000)
    chain = await repetitions(story, id)
    assert len(chain) == 2
    assert {(await batch(story, again))["retry_of"] for again in chain} == {id}
    # A repetition has no policy of its own: the first one keeps the books.
    assert {(await batch(story, again))["retry_state"] for again in chain} == {None}

    async def history(session: Session) -> Any:
        (row,) = await session.query("SELECT error_history FROM batch WHERE id = ?", [id])
        return row["error_history"]

    for error in ("task a: it broke", "task a: failed again, number 1", "task a: failed again, number 2"):
        assert error in await story.instance.store.read(history)


async def test_delays_of_repetitions_grow_by_the_policy(story: Story) -> None:
    id, ids = await run_batch(story, story.job("a", retry=None), retry={"max_retries": 3, "jitter": "none"})
    running = ids["a"]
    moment = 0.0
    for delay in (5, 10, 20):
        await story.fail(running)
        await live_on(story, moment)
        moment += delay
        await live_on(story, moment - 0.1)
        count = len(await repetitions(story, id))
        await live_on(story, moment)
        chain = await repetitions(story, id)
        assert len(chain) == count + 1
        running = (await tasks_of(story, chain[-1]))["a"]


@pytest.mark.parametrize("stopped", ["first", "repetition"])
@pytest.mark.parametrize("state", ["open", "scheduled", "retrying"])
async def test_stopping_a_batch_cancels_its_schedule(story: Story, state: str, stopped: str) -> None:
    id, ids = await run_batch(story, story.job("a", retry=None), story.job("b", retry=None))
    await story.fail(ids["a"])
    if state != "open":
        await story.fail(ids["b"])
        await live_on(story, 0)
    if state == "retrying":
        await live_on(story, 60)
    assert (await batch(story, id))["retry_state"] == state
    latest = [id, *await repetitions(story, id)][-1]

    await story.commands.stop_batch(latest if stopped == "repetition" else id)

    shown = await batch(story, id)
    assert (shown["retry_state"], shown["next_retry_at"]) == ("cancelled", None)
    await story.finish((await tasks_of(story, latest)).values())
    await live_on(story, 100_000)
    assert (await batch(story, id))["retry_state"] == "cancelled"
    assert len(await repetitions(story, id)) == (1 if state == "retrying" else 0)


async def test_a_batch_canceled_task_by_task_is_not_run_again(story: Story) -> None:
    id, ids = await run_batch(story, story.job("a"), story.job("child", "a"))

    await story.commands.cancel(ids["a"])
    await live_on(story, 0)

    assert (await batch(story, id))["retry_state"] == "cancelled"
