"""A claim is a lease: it is given back, or taken back when it runs out, with the same attempt and the same key."""

from __future__ import annotations

from perdure.domain.keys import Trigger, idempotency_key
from perdure.domain.model import Executor
from perdure.domain.states import Status
from tests.store.drafts import a_task, at_most, broken
from tests.store.scenario import LEASE, Scenario


async def _starts(scenario: Scenario, key: str) -> list[tuple[str, str, int]]:
    """The ledger of on_start: key without the task, status, how often it was sent."""
    return [
        (row["idempotency_key"].partition(":")[2], row["status"], row["attempts"])
        for row in await scenario.deliveries(key)
        if row["trigger"] == "start"
    ]


async def test_a_claim_names_its_instance_and_its_end(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    scenario.clock.advance(5)

    await scenario.claim()

    task = await scenario.task("task")
    assert (task.status, task.locked_by, task.started_at) == (Status.CLAIMED, "here", scenario.clock.now())
    assert await scenario.column("task", "lease_until") == scenario.clock.now() + LEASE


async def test_the_ledger_row_of_the_start_is_written_with_the_claim(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))

    await scenario.claim()

    (row,) = await scenario.deliveries("task")
    assert row["idempotency_key"] == idempotency_key(scenario.ids["task"], Trigger.START, 0)
    assert (row["trigger"], row["condition"], row["status"], row["attempts"]) == ("start", "success", "pending", 1)


async def test_a_worker_task_has_no_start_to_send(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", worker=True))

    assert await scenario.claim(executor=Executor.WORKER) == ["task"]

    assert await scenario.deliveries("task") == []


async def test_how_long_a_task_was_claimable_is_told(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    scenario.clock.advance(7)

    await scenario.claim()

    assert scenario.committed[-1].waited == [("job", 7.0)]


async def test_a_claim_that_ran_out_is_pending_again(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.claim()

    scenario.clock.advance(59.9)
    assert await scenario.reap() == 0
    scenario.clock.advance(0.1)
    assert await scenario.reap() == 1

    task = await scenario.task("task")
    assert (task.status, task.attempt, task.locked_by, task.started_at) == (Status.PENDING, 0, None, None)
    assert await scenario.reap() == 0


async def test_a_lease_is_looked_at_again_by_the_statement_that_takes_it_back(scenario: Scenario) -> None:
    await scenario.submit(a_task("renewed"), a_task("accepted"))
    await scenario.claim()
    await scenario.accept("accepted")
    ids = [(scenario.ids["renewed"],), (scenario.ids["accepted"],)]

    taken = await scenario.store.write(lambda session: session.fetch("reap_claims", ids))

    assert taken == []
    assert await scenario.statuses() == {"renewed": "claimed", "accepted": "running"}


async def test_running_tasks_are_not_reaped(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.run("task")
    scenario.clock.advance("1d")

    assert await scenario.reap() == 0

    assert await scenario.status("task") is Status.RUNNING


async def test_reaping_takes_a_few_at_a_time(scenario: Scenario) -> None:
    await scenario.submit(*[a_task(str(number)) for number in range(5)])
    await scenario.claim()
    scenario.clock.advance("1h")

    assert [await scenario.reap(most=2) for _ in range(4)] == [2, 2, 1, 0]


async def test_the_one_who_takes_over_sends_with_the_same_key(scenario: Scenario) -> None:
    other = await scenario.another()
    await scenario.submit(a_task("task"))
    await scenario.claim()
    scenario.clock.advance(LEASE.total_seconds())
    await other.reap()

    assert await other.claim() == ["task"]

    assert await _starts(scenario, "task") == [("start:0", "pending", 2)]
    assert (await scenario.task("task")).locked_by == "there"


async def test_a_start_that_somebody_is_sending_is_left_alone(scenario: Scenario) -> None:
    """A pending row that is younger than the claim timeout belongs to its sender, whoever holds the task."""
    other = await scenario.another()
    await scenario.submit(a_task("task"))
    await scenario.claim()
    scenario.clock.advance(LEASE.total_seconds())
    await other.reap()
    await other.claim()
    await other.store.write(lambda session: session.query("UPDATE task SET lease_until = last_updated", []))
    await other.reap()

    claimed = await scenario.claim_rows()

    assert (claimed.to_start, claimed.running, claimed.seen) == ([], [], 1)
    assert scenario.committed[-1].counts["idempotent_conflicts", ""] == 1
    assert await scenario.status("task") is Status.CLAIMED
    # The sender's answer still counts.
    await other.accept("task")
    assert await scenario.status("task") is Status.RUNNING


async def test_a_start_that_was_received_before_a_crash_is_not_sent_again(scenario: Scenario) -> None:
    other = await scenario.another()
    await scenario.submit(a_task("task", timeout=30))
    await scenario.claim()
    scenario.clock.advance(LEASE.total_seconds())
    await other.reap()
    # The answer comes when nobody holds the task any more: it is remembered in the ledger.
    await scenario.accept("task")
    assert await scenario.status("task") is Status.PENDING

    claimed = await other.claim_rows()

    assert ([row["id"] for row in claimed.running], claimed.to_start) == ([scenario.ids["task"]], [])
    assert await scenario.status("task") is Status.RUNNING
    assert await _starts(scenario, "task") == [("start:0", "success", 1)]
    assert other.committed[-1].counts["idempotent_skips", "start"] == 1
    scenario.clock.advance(30)
    assert await other.time_out() == 1


async def test_a_start_that_failed_may_be_sent_again_with_the_same_key(scenario: Scenario) -> None:
    other = await scenario.another()
    await scenario.submit(a_task("task"))
    await scenario.claim()
    scenario.clock.advance(LEASE.total_seconds())
    await other.reap()
    await scenario.refuse("task", broken("refused"))
    assert await scenario.status("task") is Status.PENDING

    assert await other.claim() == ["task"]
    assert await _starts(scenario, "task") == [("start:0", "pending", 2)]


async def test_a_claim_is_given_back_at_once(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.claim()

    assert await scenario.release("task") == 1

    task = await scenario.task("task")
    assert (task.status, task.attempt, task.started_at) == (Status.PENDING, 0, None)
    assert await scenario.deliveries("task") == []
    assert await scenario.claim() == ["task"]


async def test_only_a_claim_of_ones_own_is_given_back(scenario: Scenario) -> None:
    other = await scenario.another()
    await scenario.submit(a_task("claimed"), a_task("running"))
    await scenario.claim()
    await scenario.accept("running")

    assert await other.release("claimed") == 0
    assert await scenario.release("running") == 0

    assert await scenario.statuses() == {"claimed": "claimed", "running": "running"}


async def test_a_reaped_claim_leaves_the_slot_of_a_rule(scenario: Scenario) -> None:
    await scenario.submit(*[a_task(key, rules=[at_most(1)]) for key in "ab"])
    assert await scenario.claim() == ["a"]
    scenario.clock.advance("1h")
    await scenario.reap()

    assert await scenario.claim() == ["a"]
    assert await scenario.claim() == []
