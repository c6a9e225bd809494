"""The writer: many changes to a transaction, and each caller with a result of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from perdure.config import Engine
from perdure.domain.errors import NotFound, PerdureError, Unavailable
from perdure.engine import writer as writer_module
from perdure.engine.writer import Writer
from perdure.store.interface import Session
from perdure.store.lookups import read_pauses
from perdure.store.verbs.change import Scope, pause_scope
from tests.engine.definitions import task
from tests.engine.driven import Driven, MakeEngine
from tests.engine.outage import Outage


async def remember(session: Session, names: Sequence[str]) -> list[bool | PerdureError]:
    """A verb that stores names; it refuses `unknown` and breaks over `poison`."""
    if "poison" in names:
        raise ValueError("poison")
    await pause_scope(session, [Scope("kind", name) for name in names if name != "unknown"])
    return [NotFound("kind", name) if name == "unknown" else True for name in names]


async def remembered(driven: Driven) -> set[str]:
    return {row["name"] for row in await driven.instance.store.read(read_pauses)}


async def test_changes_that_arrive_together_share_one_transaction(driven: Driven) -> None:
    ids = await asyncio.gather(*[driven.submit_one(task(f"t{number}")) for number in range(50)])

    assert len(set(ids)) == 50
    assert len(driven.commits) == 1
    assert len(driven.commits[0].moved) == 50


async def test_changes_that_arrive_during_a_transaction_share_the_next(driven: Driven) -> None:
    writer = driven.engine.writer
    begun = asyncio.Event()
    tell = asyncio.get_running_loop().call_soon_threadsafe

    async def remember_slowly(session: Session, names: Sequence[str]) -> list[bool | PerdureError]:
        tell(begun.set)
        return await remember(session, names)

    first = asyncio.create_task(writer.do(remember_slowly, "first"))
    await begun.wait()
    later = [asyncio.create_task(writer.do(remember, f"later {number}")) for number in range(20)]

    await asyncio.gather(first, *later)

    assert len(driven.commits) == 2
    assert len(await remembered(driven)) == 21


async def test_a_transaction_holds_no_more_than_the_limit(make_engine: MakeEngine) -> None:
    driven = await make_engine(engine=Engine(writer_group_limit=20))

    await asyncio.gather(*[driven.submit_one(task(f"t{number}")) for number in range(50)])

    assert [len(commit.moved) for commit in driven.commits] == [20, 20, 10]


async def test_a_refusal_reaches_its_own_caller_only(driven: Driven) -> None:
    writer = driven.engine.writer

    results = await asyncio.gather(
        writer.do(remember, "a"), writer.do(remember, "unknown"), writer.do(remember, "b"), return_exceptions=True
    )

    assert results[0] is True
    assert isinstance(results[1], NotFound)
    assert results[2] is True
    assert len(driven.commits) == 1
    assert await remembered(driven) == {"a", "b"}


async def test_a_poison_command_fails_alone(driven: Driven, caplog: pytest.LogCaptureFixture) -> None:
    writer = driven.engine.writer
    names = [f"good {number}" for number in range(15)]

    results = await asyncio.gather(
        *[writer.do(remember, name) for name in [*names[:7], "poison", *names[7:]]], return_exceptions=True
    )

    assert [result for result in results if result is not True] == [results[7]]
    assert isinstance(results[7], ValueError)
    assert await remembered(driven) == set(names)
    assert [record.message for record in caplog.records] == ["a change could not be written; it is refused"]


async def test_while_the_database_is_away_everybody_is_told(driven: Driven, outage: Outage) -> None:
    writer = driven.engine.writer
    await outage.begin()

    results = await asyncio.gather(*[writer.do(remember, f"{number}") for number in range(5)], return_exceptions=True)

    assert all(isinstance(result, Unavailable) for result in results), results
    await outage.end()
    assert await writer.do(remember, "back")
    assert await remembered(driven) == {"back"}


async def test_a_caller_who_goes_away_does_not_lose_the_write(driven: Driven) -> None:
    writer = driven.engine.writer
    leaving = asyncio.create_task(writer.do(remember, "left behind"))
    staying = asyncio.create_task(writer.do(remember, "stayed"))
    await asyncio.sleep(0)

    leaving.cancel()

    assert await staying
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await writer.idle()
    assert await remembered(driven) == {"left behind", "stayed"}


async def test_more_waiting_changes_than_can_be_held_are_refused(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "MOST_WAITING", 3)
    writer: Writer = driven.engine.writer

    results = await asyncio.gather(*[writer.do(remember, f"{number}") for number in range(5)], return_exceptions=True)

    assert [isinstance(result, Unavailable) for result in results] == [False, False, False, True, True]


async def test_idle_waits_for_what_was_handed_in(driven: Driven) -> None:
    writer = driven.engine.writer
    change = asyncio.create_task(writer.do(remember, "a"))
    await asyncio.sleep(0)

    await writer.idle()

    assert await remembered(driven) == {"a"}
    assert await change
