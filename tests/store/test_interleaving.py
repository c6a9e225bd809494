"""Two transactions, step by step: what one does between two statements of the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from perdure.domain.drafts import BatchDraft
from perdure.domain.model import Executor
from perdure.domain.states import Status
from perdure.store.changes import Row
from perdure.store.interface import Session
from perdure.store.statements import Dialect
from perdure.store.verbs import change, claim, end
from perdure.store.verbs.submit import Submit, Submitted, submit
from tests.store.drafts import a_task, at_most, unless
from tests.store.scenario import LEASE, Scenario

Act = Callable[[], Awaitable[object]]


class Interrupted(Session):
    """A session during which something else happens, right before one of its statements."""

    dialect = Dialect.POSTGRES

    def __init__(self, session: Session, before: str, act: Act) -> None:
        super().__init__(session.now, session.options)
        self.changes = session.changes
        self._session = session
        self._before = before
        self._act: Act | None = act

    async def fetch(self, name: str, rows: Sequence[Sequence[Any]] | None = None, /, **parameters: Any) -> list[Row]:
        act = self._act
        if name == self._before and act is not None:
            self._act = None
            await act()
        return await self._session.fetch(name, rows, **parameters)

    async def query(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        return await self._session.query(sql, parameters)

    async def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        await self._session.insert(table, columns, rows)


async def test_a_task_put_under_other_limits_during_a_claim_is_not_claimed(postgres_scenario: Scenario) -> None:
    scenario, other = postgres_scenario, await postgres_scenario.another()
    rules = [at_most(1, "job", "customer")]
    await scenario.submit(
        a_task("runs", rules=rules, metadata={"customer": "a"}),
        a_task("moves", rules=rules, metadata={"customer": "b"}),
    )
    await scenario.run("runs")
    now = scenario.clock.now()
    request = claim.Claim(Executor.WEBHOOK, 10, lease_until=now + LEASE, stale=now - LEASE)

    async def move() -> None:
        await other.edit("moves", metadata={"customer": "a"})

    claimed = await scenario.store.write(lambda session: claim.claim(Interrupted(session, "claim", move), request))

    assert claimed.to_start == []
    assert await scenario.claim() == []
    await scenario.succeed("runs")
    assert await scenario.claim() == ["moves"]


async def test_a_task_canceled_during_a_claim_is_not_claimed(postgres_scenario: Scenario) -> None:
    scenario, other = postgres_scenario, await postgres_scenario.another()
    await scenario.submit(*[a_task(key, rules=[at_most(5)]) for key in ("canceled", "paused", "claimed")])
    now = scenario.clock.now()
    request = claim.Claim(Executor.WEBHOOK, 10, lease_until=now + LEASE, stale=now - LEASE)

    async def interfere() -> None:
        await other.cancel("canceled")
        await other.pause("paused")

    claimed = await scenario.store.write(lambda session: claim.claim(Interrupted(session, "claim", interfere), request))

    assert [scenario.key_of(row["id"]) for row in claimed.to_start] == ["claimed"]
    assert await scenario.statuses() == {"canceled": "canceled", "paused": "pending", "claimed": "claimed"}


async def test_a_task_that_ends_while_its_batch_is_stopped_is_counted_once(postgres_scenario: Scenario) -> None:
    scenario, other = postgres_scenario, await postgres_scenario.another()
    batch_id = await scenario.submit(a_task("ends"), a_task("stopped"))
    await scenario.run("ends", "stopped")

    (stopped,) = await scenario.store.write(
        lambda session: change.stop_batch(
            Interrupted(session, "batch_live_tasks", lambda: other.succeed("ends")), [batch_id]
        )
    )

    assert isinstance(stopped, change.Stopped)
    assert (stopped.canceled, stopped.already_terminal) == ({"running": 1}, 1)


async def test_a_success_that_was_overtaken_by_a_cancel_is_told(postgres_scenario: Scenario) -> None:
    scenario, other = postgres_scenario, await postgres_scenario.another()
    await scenario.submit(a_task("task"))
    await scenario.run("task")
    item = end.Succeed(scenario.ids["task"], 0)

    (refusal,) = await scenario.store.write(
        lambda session: end.succeed(Interrupted(session, "succeed", lambda: other.cancel("task")), [item])
    )

    assert str(refusal) == "The task is Canceled, not running; nothing was changed."
    assert await scenario.status("task") is Status.CANCELED


async def test_a_twin_that_is_stored_meanwhile_is_seen(postgres_scenario: Scenario) -> None:
    """Whoever waits for the lock sees what the holder stored, though its transaction began before."""
    scenario, other = postgres_scenario, await postgres_scenario.another()
    twin = a_task("task", dedupe_strategy=unless("Pending"))
    prepared = scenario.prepare(BatchDraft([twin]))

    (submitted,) = await scenario.store.write(
        lambda session: submit(Interrupted(session, "lock_name", lambda: other.submit(twin)), [Submit(prepared)])
    )

    assert isinstance(submitted, Submitted)
    assert submitted.tasks == []
