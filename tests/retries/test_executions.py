"""Execution retry: a batch that ended with a failure is run again as a whole, by the policy of the batch."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.config import Retry
from perdure.engine.loops import executions as executions_loop
from perdure.store.interface import Session
from perdure.store.statements import Dialect
from perdure.store.verbs.executions import settle_executions
from perdure.store.verbs.retry import RetryTask, retry_tasks
from tests.engine.definitions import Definition
from tests.engine.driven import eventually
from tests.retries.conftest import TellStory
from tests.retries.story import Story
from tests.support.receiver import Receiver

ONCE: dict[str, Any] = {"strategy": "immediate", "max_retries": 1}
BY_THE_MINUTE: dict[str, Any] = {"strategy": "fixed_delay", "delay_secs": 60, "max_retries": 2}


async def run_batch(story: Story, *tasks: Definition, **members: Any) -> tuple[str, dict[str, str]]:
    """Submit a batch that is repeated after a minute, twice at most, and start it."""
    members.setdefault("retry", BY_THE_MINUTE)
    ids = await story.run(*tasks, **members)
    return (await story.task(next(iter(ids.values())))).batch_id, ids


async def live_on(story: Story, second: float) -> None:
    """Go to this moment, and let batches be judged and repeated."""
    await story.at(second)
    await story.engine.execution_loop.run_once()
    await story.start()


async def batch(story: Story, id: str) -> dict[str, Any]:
    shown: dict[str, Any] = (await story.client.get(f"/batch/{id}")).json
    return shown


async def repetitions(story: Story, id: str) -> list[str]:
    """The batches that were made from this one, oldest first."""
    rows = (await story.client.get("/batches")).json
    return [row["batch_id"] for row in sorted(rows, key=lambda row: row["attempt"]) if row["retry_of"] == id]


async def tasks_of(story: Story, batch_id: str) -> dict[str, str]:
    graph = (await story.client.get(f"/dag/{batch_id}")).json
    return {row["name"].removeprefix("task "): row["id"] for row in graph["tasks"]}


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


async def test_two_instances_launch_a_repetition_once(tell: TellStory, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="perdure.engine")
    instances = [await tell() for _ in range(4)]
    first = instances[0]
    id, ids = await run_batch(first, first.job("a", retry=None))
    await first.fail(ids["a"])

    await asyncio.gather(*[story.engine.execution_loop.run_once() for story in instances])
    first.clock.advance(60)
    await asyncio.gather(*[story.engine.execution_loop.run_once() for story in instances])

    assert len(await repetitions(first, id)) == 1
    # Only the one who did it says so.
    assert caplog.messages.count("a batch failed; it is run again") == 1
    assert caplog.messages.count("running a failed batch again") == 1


async def test_a_definition_that_no_longer_keeps_the_rules_fails_instead_of_spinning(
    tell: TellStory, caplog: pytest.LogCaptureFixture
) -> None:
    before = await tell(retry=Retry(policies={"bank": {"max_retries": 1, "strategy": "immediate"}}))
    id, ids = await run_batch(before, before.job("a", retry="bank"))
    await before.fail_until_exhausted(ids["a"])
    await live_on(before, 0)

    after = await tell()
    await live_on(after, 60)

    assert (await batch(after, id))["retry_state"] == "failed"
    assert await repetitions(after, id) == []
    assert "a batch cannot be run again: its definition no longer keeps the rules; it has failed" in caplog.messages
    assert await after.engine.execution_loop.next_moment() is None


async def test_a_definition_that_cannot_be_read_fails_instead_of_spinning(story: Story) -> None:
    broken, ids = await run_batch(story, story.job("a", retry=None))
    whole, others = await run_batch(story, story.job("b", retry=None))
    await story.fail(ids["a"])
    await story.fail(others["b"])
    await live_on(story, 0)

    async def break_definition(session: Session) -> None:
        # Written by a version that knew other things.
        await session.query("UPDATE batch SET definition = '[{\"id\": 5}]' WHERE id = ? RETURNING id", [broken])

    await story.instance.store.write(break_definition)
    await live_on(story, 60)

    assert (await batch(story, broken))["retry_state"] == "failed"
    assert (await batch(story, whole))["retry_state"] == "retrying"


async def test_a_task_retried_by_hand_reopens_its_batch(story: Story) -> None:
    id, ids = await run_batch(story, story.job("a", retry=None), story.job("child", "a"))
    await story.fail(ids["a"])
    await live_on(story, 0)
    assert (await batch(story, id))["retry_state"] == "scheduled"

    await story.commands.retry(ids["a"])

    shown = await batch(story, id)
    assert (shown["retry_state"], shown["next_retry_at"]) == ("open", None)
    await live_on(story, 60)
    assert await repetitions(story, id) == []
    await story.finish(ids.values())
    await live_on(story, 60)
    assert (await batch(story, id))["retry_state"] == "completed"


async def test_a_repetition_retried_by_hand_is_judged_again(story: Story) -> None:
    id, ids = await run_batch(story, story.job("a", retry=None), retry={**BY_THE_MINUTE, "max_retries": 1})
    await story.fail(ids["a"])
    await live_on(story, 0)
    await live_on(story, 60)
    (again,) = await repetitions(story, id)
    repeated = await tasks_of(story, again)
    await story.fail(repeated["a"])
    await live_on(story, 60)
    assert (await batch(story, id))["retry_state"] == "failed"

    await story.commands.retry_batch(again)

    assert (await batch(story, id))["retry_state"] == "retrying"
    await story.finish(repeated.values())
    await live_on(story, 60)
    assert (await batch(story, id))["retry_state"] == "completed"


async def test_a_retry_by_hand_in_an_execution_that_was_replaced_changes_nothing_for_its_batch(story: Story) -> None:
    id, ids = await run_batch(story, story.job("a", retry=None))
    await story.fail(ids["a"])
    await live_on(story, 0)
    await live_on(story, 60)

    await story.commands.retry(ids["a"])

    assert (await batch(story, id))["retry_state"] == "retrying"


@pytest.mark.parametrize("database_url", [Dialect.POSTGRES], indirect=True)
@pytest.mark.parametrize("first", ["judge", "person"])
async def test_a_batch_is_not_repeated_while_somebody_retries_a_task_of_it(tell: TellStory, first: str) -> None:
    """One judges that the batch is over, one revives a task in the same moment: whoever comes second sees it."""
    one, other = await tell(), await tell()
    id, ids = await run_batch(one, one.job("a", retry=None))
    await one.fail(ids["a"])
    loop = one.engine.execution_loop
    late: list[asyncio.Task[object]] = []

    async def judge(session: Session) -> int:
        return await settle_executions(session, executions_loop.PAGE, loop._decide)

    async def revive(session: Session) -> object:
        return await retry_tasks(session, [RetryTask(ids["a"])])

    async def come_first(session: Session) -> None:
        await (judge if first == "judge" else revive)(session)
        work: Any = revive if first == "judge" else judge
        late.append(asyncio.create_task(other.instance.store.write(work)))
        # Only once the other one stands in line does the first one commit.
        await eventually(lambda: _somebody_waits(one))

    await one.instance.store.write(come_first)
    await late[0]

    assert (await batch(one, id))["retry_state"] == "open"
    assert await one.status(ids["a"]) == "Pending"


async def _somebody_waits(story: Story) -> bool:
    async def waiting(session: Session) -> bool:
        sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        return bool(await session.query(sql, []))

    return await story.instance.store.read(waiting)
