"""With a hundred thousand tasks in the database, no statement of the engine reads more than it needs.

PostgreSQL is asked through the store's own connections, for the plan that suits the parameters and for the one that it
keeps for all parameters; SQLite with and without statistics, which only people who run ANALYZE have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pytest

from perdure.domain.keys import Trigger, idempotency_key
from perdure.domain.model import Task
from perdure.domain.states import Status
from perdure.store.interface import StoreOptions
from perdure.store.statements import Dialect
from perdure.testing import VirtualClock
from tests.store.crowd import Crowd
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase
from tests.store.plans import Ask, Plan, explain, explain_for_all


@dataclass(frozen=True)
class Expected:
    indexes: frozenset[str]
    """What must be walked."""
    also: frozenset[str] = frozenset()
    """What may be walked besides: to fetch what the first one found."""
    from_the_top: bool = False
    """The first entry of an index is what is wanted, so there is no condition."""


def walks(*indexes: str, also: str | None = None, from_the_top: bool = False) -> Expected:
    return Expected(frozenset(indexes), frozenset() if also is None else frozenset({also}), from_the_top)


BY_ID = walks("task_pkey")
EXPECTED = {
    # Claiming.
    "open_lanes": walks("task_claim", also="task_pkey", from_the_top=True),
    "take_heads": walks("task_claim", also="task_pkey"),
    "lane_heads": walks("task_claim", also="task_pkey"),
    "occupancy": walks("task_status_kind"),
    "claim": BY_ID,
    "read_starts": walks("webhook_execution_idempotency_key_key"),
    "release_claims": BY_ID,
    # Working.
    "begin": BY_ID,
    "renew_leases": BY_ID,
    "show_life": BY_ID,
    "lost_workers": walks("task_lease"),
    "parent_results": walks("link_child", "task_pkey"),
    # What time brings.
    "due_tasks": walks("task_delayed"),
    "release_delayed": BY_ID,
    "due_retries": walks("task_retry"),
    "release_retries": BY_ID,
    "timed_out": walks("task_timeout"),
    "expired_claims": walks("task_lease"),
    "reap_claims": BY_ID,
    "next_due": walks("task_delayed", "task_retry", from_the_top=True),
    # Endings.
    "lock_batches": walks("batch_pkey", "task_pkey"),
    "lock_tasks": BY_ID,
    "lock_failing": BY_ID,
    "lock_rows": BY_ID,
    "start": BY_ID,
    "succeed": BY_ID,
    "fail": BY_ID,
    "schedule_retry": BY_ID,
    "cancel": BY_ID,
    "count": BY_ID,
    "edit": BY_ID,
    # Propagation.
    "release_children": walks("link_pkey", "task_pkey"),
    "doomed_children": walks("link_pkey", "link_child", "task_pkey"),
    "doom": BY_ID,
    "skipped_children": walks("link_pkey", "task_pkey"),
    "skip": BY_ID,
    "dead_ends": walks("link_pkey", "link_child", "task_pkey"),
    # The outbox.
    "due_deliveries": walks("webhook_execution_due", "webhook_execution_pkey", from_the_top=True),
    "take_deliveries": walks("webhook_execution_pkey"),
    "settle_deliveries": walks("webhook_execution_pkey"),
    "settle_starts": walks("webhook_execution_idempotency_key_key"),
    "next_delivery": walks("webhook_execution_due", from_the_top=True),
    # Batches.
    "batch_live_tasks": walks("task_batch"),
    "batch_ended_count": walks("task_batch"),
    "find_twins": walks("task_status_kind"),
}


def asks(crowd: Crowd) -> dict[str, Ask]:
    """What each statement is asked for, as the engine asks."""
    pending, running, waiting = crowd.some(Status.PENDING), crowd.some(Status.RUNNING), crowd.some(Status.WAITING)
    claimed = crowd.some(Status.CLAIMED)
    lanes = [(number, 20, number // 2, 30) for number in range(50)]
    rooms = [("https://busy.example", 1), ("", 100)]
    batch = {"batch_id": crowd.batches[3]}
    instance = {"instance": "here"}

    def ids(tasks: list[Task]) -> Ask:
        return [(task.id,) for task in tasks], {}

    def each(tasks: list[Task], *values: object) -> Ask:
        return [(task.id, *values) for task in tasks], {}

    keys = [(idempotency_key(task.id, Trigger.START, 0),) for task in claimed]
    few: Ask = (None, {"most": 100})
    lease = {**instance, "lease_until": crowd.now}
    looked_for = ("due_tasks", "due_retries", "timed_out", "expired_claims", "lost_workers")
    return {
        "open_lanes": (None, {}),
        "take_heads": (lanes, {"most": 20}),
        "lane_heads": (lanes, {"most": 20}),
        "occupancy": ([(0, "kind 1", None, "[]"), (1, None, "default", "[]")], {}),
        "claim": ([(task.id, task.lane) for task in pending], lease),
        "read_starts": (keys, {}),
        "release_claims": (each(claimed, 0)[0], instance),
        "begin": ([(task.id, task.lane) for task in pending], lease),
        "renew_leases": (each(running, 0)[0], lease),
        "show_life": (each(running, 0, 1, None)[0], instance),
        "parent_results": ids(waiting),
        **dict.fromkeys(looked_for, few),
        "release_delayed": ids(pending),
        "release_retries": ids(crowd.some(Status.RETRY_PENDING)),
        "reap_claims": ids(claimed),
        "next_due": (None, {}),
        "due_deliveries": (rooms, {"most": 100, "places": 50}),
        "next_delivery": (rooms, {}),
        **dict.fromkeys(("lock_batches", "lock_tasks", "lock_failing", "lock_rows"), ids(running)),
        "start": each(claimed, 0),
        "succeed": each(running, 0, None),
        "fail": each(running, 0, "reason", "final"),
        "schedule_retry": each(running, 0, "reason", "retryable", crowd.now, 1.0, 1, 0, 0),
        "cancel": each(waiting, "reason", None),
        "count": each(running, 1, 0),
        "edit": each(running, None, 1, 0, None, 0, 0),
        "release_children": each(running, "success"),
        "skipped_children": each(running, "success"),
        "doomed_children": ids(running),
        "dead_ends": ids(waiting),
        "doom": each(waiting, "reason", waiting[0].id),
        "skip": ids(waiting),
        "take_deliveries": (ids(running)[0], {**instance, "stale": crowd.now}),
        "settle_deliveries": each(running, 1, "success", 200, None, None),
        "settle_starts": ([(key, None, "success", 200, None) for (key,) in keys], instance),
        "batch_live_tasks": (None, batch),
        "batch_ended_count": (None, batch),
        "find_twins": each(pending, "kind 1", "running", '{"a": 1}'),
    }


PLANNERS = ("postgres", "postgres for all", "sqlite", "sqlite analyzed")
Plans = dict[str, dict[str, Plan]]


@pytest.fixture(scope="module")
def plans(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plans]:
    """By planner and statement: how it is run."""
    postgres = PostgresDatabase(request.getfixturevalue("postgres_databases"))
    sqlite = SqliteDatabase(tmp_path_factory.mktemp("crowd") / "perdure.db")
    crowd = Crowd(VirtualClock().now())
    with ThreadPoolExecutor(max_workers=1) as executor:
        yield {
            **executor.submit(asyncio.run, _explain_all(postgres, crowd)).result(),
            **executor.submit(asyncio.run, _explain_all(sqlite, crowd)).result(),
        }
    postgres.remove()


async def _explain_all(database: Database, crowd: Crowd) -> Plans:
    store = database.make_store(StoreOptions("here"), VirtualClock(crowd.now))
    await store.open()
    found: Plans = {}

    async def explain_each(planner: str) -> None:
        found[planner] = {}
        for name, ask in asks(crowd).items():
            found[planner][name] = await store.write(partial(explain, name=name, ask=ask))

    try:
        await crowd.move_in(store)
        if database.dialect is Dialect.SQLITE:
            await explain_each("sqlite")
        await store.write(lambda session: session.query("ANALYZE", []))
        await explain_each("postgres" if database.dialect is Dialect.POSTGRES else "sqlite analyzed")
        if database.dialect is Dialect.POSTGRES:
            found["postgres for all"] = {
                name: await store.write(partial(explain_for_all, name=name)) for name in EXPECTED
            }
    finally:
        await store.close()
    return found


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("planner", PLANNERS)
def test_a_statement_walks_its_index_and_nothing_else(plans: Plans, planner: str, name: str) -> None:
    plan, expected = plans[planner][name], EXPECTED[name]

    if plan.text:
        assert expected.indexes <= plan.indexes <= expected.indexes | expected.also, plan.text
    if not expected.from_the_top:
        assert all(step.by_condition for step in plan.steps), plan.text
