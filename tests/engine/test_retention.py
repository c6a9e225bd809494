"""Forgetting: batches that ended long ago are deleted, whole, and no others."""

from __future__ import annotations

import pytest

from perdure.config import Retention
from perdure.domain.errors import NotFound
from perdure.store.lookups import find_batch
from perdure.store.verbs.submit import SubmissionKey
from perdure.testing import VirtualClock
from tests.engine.definitions import draft, task, webhook
from tests.engine.driven import Driven, MakeEngine
from tests.support.receiver import Receiver


async def exists(driven: Driven, id: str) -> bool:
    try:
        await driven.task(id)
    except NotFound:
        return False
    return True


async def forget(driven: Driven) -> None:
    while await driven.engine.retention_loop.run_once():
        pass


async def test_what_ended_long_ago_is_deleted_with_all_its_traces(
    driven: Driven, receiver: Receiver, clock: VirtualClock
) -> None:
    start = webhook(receiver.url())
    ids = await driven.submit(task("a", on_start=start, on_success=[start]), task("b", "a", on_start=start))
    batch_id = (await driven.task(ids["a"])).batch_id
    await driven.start()
    await driven.report(ids["a"])
    await driven.work()
    await driven.report(ids["b"])
    clock.advance("30d")
    await forget(driven)
    assert await exists(driven, ids["a"])

    clock.advance(1)
    await forget(driven)

    for id in ids.values():
        assert not await exists(driven, id)
        with pytest.raises(NotFound):
            await driven.events(id)
        with pytest.raises(NotFound):
            await driven.attempts(id)
        with pytest.raises(NotFound):
            await driven.deliveries(id)
    with pytest.raises(NotFound):
        await driven.instance.store.read(lambda session: find_batch(session, batch_id))


async def test_a_batch_with_a_live_task_is_kept_whole(driven: Driven, clock: VirtualClock) -> None:
    ids = await driven.submit(task("over"), task("live"))
    await driven.commands.cancel(ids["over"])
    clock.advance("365d")

    await forget(driven)

    assert await exists(driven, ids["over"])


async def test_what_ended_a_short_while_ago_is_kept_however_old_it_is(driven: Driven, clock: VirtualClock) -> None:
    id = await driven.submit_one(task())
    clock.advance("365d")
    await driven.commands.cancel(id)

    await forget(driven)

    assert await exists(driven, id)


async def test_old_batches_go_a_few_at_a_time(make_engine: MakeEngine, clock: VirtualClock) -> None:
    driven = await make_engine(retention=Retention(days=1, chunk=2))
    ids = [await driven.submit_one(task()) for _ in range(5)]
    for id in ids:
        await driven.commands.cancel(id)
    clock.advance("2d")

    more = await driven.engine.retention_loop.run_once()

    assert more
    assert [await exists(driven, id) for id in ids] == [False, False, True, True, True]
    await forget(driven)
    assert not any([await exists(driven, id) for id in ids])


async def test_retention_can_be_switched_off(make_engine: MakeEngine, clock: VirtualClock) -> None:
    driven = await make_engine(retention=Retention(days=0))
    id = await driven.submit_one(task())
    await driven.commands.cancel(id)
    clock.advance("3650d")

    await forget(driven)

    assert await exists(driven, id)


async def test_the_answer_to_a_submission_is_kept_for_a_day(driven: Driven, clock: VirtualClock) -> None:
    key = SubmissionKey("key", "hash", lambda batch_id, _tasks: batch_id.encode())
    first = await driven.commands.submit(draft([task()]), key)
    clock.advance("24h")
    await forget(driven)
    again = await driven.commands.submit(draft([task()]), key)
    assert (again.batch_id, again.answer) == (first.batch_id, first.batch_id.encode())

    clock.advance(1)
    await forget(driven)

    assert (await driven.commands.submit(draft([task()]), key)).batch_id != first.batch_id
