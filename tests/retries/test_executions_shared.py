"""Execution retry among many: several instances, people who retry by hand, definitions that have become invalid."""

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
from tests.engine.driven import eventually
from tests.retries.batches import BY_THE_MINUTE, batch, live_on, repetitions, run_batch, tasks_of
from tests.retries.conftest import TellStory
from tests.retries.story import Story


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
