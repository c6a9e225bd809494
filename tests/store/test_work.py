"""Python workers: they begin what they claim, keep it by renewing leases, and hand in results when they claim more."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from perdure.domain.errors import NotRunning
from perdure.domain.states import Status
from perdure.store.verbs import change
from tests.store.drafts import a_task, at_most, fixed_retry, work_below
from tests.store.scenario import LEASE, Scenario
from tests.store.working import Working


@pytest.fixture
def worker(scenario: Scenario) -> Working:
    return Working(scenario)


# Beginning.


async def test_what_a_worker_claims_runs_at_once(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("task", worker=True, timeout=30))
    scenario.clock.advance(5)

    assert await worker.begin() == ["task"]

    now = scenario.clock.now()
    task = await scenario.task("task")
    assert (task.status, task.locked_by, task.started_at, task.last_updated) == (Status.RUNNING, "here", now, now)
    assert await scenario.column("task", "lease_until") == now + LEASE
    assert await scenario.column("task", "times_out_at") == now + timedelta(seconds=30)
    assert await scenario.moves("task") == [("pending", "running")]
    assert scenario.committed[-1].waited == [("job", 5.0)]


async def test_what_begins_comes_with_what_its_function_needs(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("task", worker=True, kind="charge", payload={"order": 7}))

    (row,) = (await worker.round(wanted=worker.claim())).begun

    assert (row["kind"], row["name"], row["attempt"], row["linked"]) == ("charge", "task task", 0, False)
    assert row["payload"].replace(" ", "") == '{"order":7}'


async def test_workers_begin_the_kinds_that_they_know_and_no_webhook_tasks(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(
        a_task("mine", worker=True, kind="charge"), a_task("other", worker=True), a_task("webhook", kind="charge")
    )

    assert await worker.begin(kinds=frozenset({"charge"})) == ["mine"]

    assert await scenario.statuses() == {"mine": "running", "other": "pending", "webhook": "pending"}


async def test_paused_tasks_and_kinds_do_not_begin(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("task", worker=True), a_task("kind", worker=True, kind="other"))
    await scenario.pause("task")
    await scenario.store.write(lambda session: change.pause_scope(session, [change.Scope("kind", "other")]))

    assert await worker.begin() == []

    await scenario.resume("task")
    assert await worker.begin() == ["task"]


async def test_rules_hold_for_workers(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(*[a_task(key, worker=True, rules=[at_most(2)]) for key in "abcd"])

    assert await worker.begin() == ["a", "b"]
    assert await worker.begin() == []

    turn = await worker.round([worker.done("a")], [worker.failed("b")], worker.claim())
    assert worker.keys(turn.begun) == ["c", "d"]


async def test_capacity_holds_for_workers_and_shrinks_with_their_progress(scenario: Scenario, worker: Working) -> None:
    rules = [work_below(10)]
    await scenario.submit(*[a_task(key, worker=True, rules=rules, expected_count=10) for key in "ab"])
    assert await worker.begin(most=1) == ["a"]
    assert await worker.begin() == []

    await worker.show_life("a", done=1)

    assert await worker.begin() == ["b"]


async def test_limits_of_a_kind_hold_for_workers(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(*[a_task(key, worker=True) for key in "abc"])

    assert await worker.begin(kind_limits={"job": 2}) == ["a", "b"]
    assert await worker.begin(kind_limits={"job": 2}) == []


async def test_two_workers_never_begin_the_same_task(scenario: Scenario, worker: Working) -> None:
    other = Working(await scenario.another())
    await scenario.submit(*[a_task(f"{number:02}", worker=True) for number in range(50)])

    taken = await asyncio.gather(*[who.begin(most=10) for who in (worker, other) * 4])

    keys = [key for one in taken for key in one]
    assert len(keys) == len(set(keys))
    assert sorted([*keys, *await worker.begin()]) == [f"{number:02}" for number in range(50)]


# Signs of life.


async def test_a_lease_is_renewed_from_now(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("task", worker=True))
    await worker.begin()
    scenario.clock.advance(50)

    assert await worker.renew(("task", 0)) == ["task"]

    assert await scenario.column("task", "lease_until") == scenario.clock.now() + LEASE
    scenario.clock.advance(59)
    assert await worker.lose() == []


async def test_a_renewal_does_not_count_as_a_sign_of_the_task(scenario: Scenario, worker: Working) -> None:
    """The worker lives; whether the function does is what the timeout is for."""
    await scenario.submit(a_task("task", worker=True, timeout=30))
    await worker.begin()
    scenario.clock.advance(20)
    await worker.renew(("task", 0))
    scenario.clock.advance(10)

    assert await scenario.time_out() == 1


async def test_only_the_owner_renews_and_only_the_attempt_that_runs(scenario: Scenario, worker: Working) -> None:
    other = Working(await scenario.another())
    await scenario.submit(a_task("task", worker=True, retry=fixed_retry(0)), a_task("webhook"))
    await worker.begin()
    await scenario.run("webhook")
    lease = await scenario.column("task", "lease_until")
    scenario.clock.advance(1)

    assert await other.renew(("task", 0)) == []
    assert await worker.renew(("task", 1)) == []
    assert await scenario.column("task", "lease_until") == lease

    await worker.round(failed=[worker.failed("task")], wanted=worker.claim())
    assert (await scenario.task("task")).attempt == 1
    assert await worker.renew(("task", 0)) == []
    assert await worker.renew(("task", 1)) == ["task"]


@pytest.mark.parametrize("ending", ["succeed", "fail", "cancel"])
async def test_what_ended_is_not_renewed(scenario: Scenario, worker: Working, ending: str) -> None:
    await scenario.submit(a_task("ended", worker=True), a_task("runs", worker=True))
    await worker.begin()
    await getattr(scenario, ending)("ended")

    assert await worker.renew(("ended", 0), ("runs", 0)) == ["runs"]

    assert await scenario.column("ended", "lease_until") is None


async def test_a_paused_task_keeps_its_lease(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("task", worker=True))
    await worker.begin()
    await scenario.pause("task")

    assert await worker.renew(("task", 0)) == ["task"]

    await worker.round([worker.done("task")])
    assert await scenario.status("task") is Status.SUCCESS


async def test_a_heartbeat_lets_the_timeout_begin_afresh(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("task", worker=True, timeout=30))
    await worker.begin()
    scenario.clock.advance(29)

    await worker.show_life("task")

    task = await scenario.task("task")
    assert (task.last_updated, task.success, task.expected_count) == (scenario.clock.now(), 0, None)
    scenario.clock.advance(29)
    assert await scenario.time_out() == 0
    scenario.clock.advance(1)
    assert await scenario.time_out() == 1


async def test_progress_is_what_was_told_last(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("task", worker=True))
    await worker.begin()

    await worker.show_life("task", done=3, total=10)
    await worker.show_life("task", done=2)

    task = await scenario.task("task")
    assert (task.success, task.expected_count) == (2, 10)


async def test_a_paused_task_does_not_time_out_because_it_shows_life(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("task", worker=True, timeout=30))
    await worker.begin()
    await scenario.pause("task")

    await worker.show_life("task", done=1)

    assert await scenario.column("task", "times_out_at") is None


async def test_nobody_else_shows_life_for_a_task_nor_an_attempt_that_is_over(
    scenario: Scenario, worker: Working
) -> None:
    other = Working(await scenario.another())
    await scenario.submit(a_task("task", worker=True, retry=fixed_retry(0)))
    await worker.begin()
    began = scenario.clock.now()
    scenario.clock.advance(5)

    await other.show_life("task", done=7)
    await worker.show_life("task", attempt=1, done=7)

    task = await scenario.task("task")
    assert (task.success, task.last_updated) == (0, began)


async def test_a_late_heartbeat_does_not_wake_the_dead(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("task", worker=True))
    await worker.begin()
    await scenario.cancel("task")

    await worker.show_life("task", done=7)

    assert await scenario.status("task") is Status.CANCELED
    assert (await scenario.task("task")).success == 0


# Rounds.


async def test_results_go_in_and_tasks_come_out_in_one_transaction(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(
        a_task("good", worker=True),
        a_task("bad", worker=True),
        a_task("child", worker=True, after="good"),
        a_task("orphan", worker=True, after="bad"),
    )
    await worker.begin()
    commits = len(scenario.committed)

    turn = await worker.round([worker.done("good", result='{"sum":3}')], [worker.failed("bad")], worker.claim())

    assert len(scenario.committed) == commits + 1
    assert (worker.keys(turn.begun), turn.refused) == (["child"], [])
    assert await scenario.statuses() == {
        "good": "success",
        "bad": "failure",
        "child": "running",
        "orphan": "failure",
    }


async def test_a_retry_without_a_wait_begins_in_the_round_that_reports_the_failure(
    scenario: Scenario, worker: Working
) -> None:
    await scenario.submit(a_task("task", worker=True, retry={"strategy": "immediate", "max_retries": 2}))
    await worker.begin()

    turn = await worker.round(failed=[worker.failed("task")], wanted=worker.claim())

    assert [(row["id"], row["attempt"]) for row in turn.begun] == [(scenario.ids["task"], 1)]
    assert await scenario.moves("task") == [
        ("pending", "running"),
        ("running", "retry_pending"),
        ("retry_pending", "pending"),
        ("pending", "running"),
    ]


async def test_a_retry_with_a_wait_does_not_begin_before_its_moment(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("task", worker=True, retry=fixed_retry(10)))
    await worker.begin()

    turn = await worker.round(failed=[worker.failed("task")], wanted=worker.claim())
    assert (turn.begun, await scenario.status("task")) == ([], Status.RETRY_PENDING)

    scenario.clock.advance(10)
    await scenario.release_due()
    assert await worker.begin() == ["task"]


async def test_a_round_that_asks_for_nothing_begins_nothing(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(a_task("done", worker=True), a_task("next", worker=True))
    await worker.begin(most=1)

    turn = await worker.round([worker.done("done")])

    assert turn.begun == []
    assert await scenario.statuses() == {"done": "success", "next": "pending"}


async def test_a_late_result_does_not_spoil_the_round(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(*[a_task(key, worker=True) for key in ("canceled", "kept", "broken")])
    await worker.begin()
    await scenario.cancel("canceled", "broken")

    turn = await worker.round(
        [worker.done("canceled", result="1"), worker.done("kept", result="2")], [worker.failed("broken")]
    )

    assert [type(problem) for problem in turn.refused] == [NotRunning, NotRunning]
    assert await scenario.statuses() == {"canceled": "canceled", "kept": "success", "broken": "canceled"}
    assert (await scenario.task("canceled")).result is None


async def test_what_a_task_waited_for_comes_in_the_order_of_the_batch(scenario: Scenario, worker: Working) -> None:
    await scenario.submit(
        a_task("z", worker=True, kind="first"),
        a_task("a", worker=True, kind="second"),
        a_task("child", worker=True, after={"a": "always", "z": "on_success"}),
        a_task("alone", worker=True),
    )
    await worker.begin()
    await worker.round([worker.done("z", result="[1]")], [worker.failed("a")])

    assert await worker.parents("child") == [("z", "first", "success", "[1]"), ("a", "second", "failure", None)]
    assert await worker.parents("alone") == []
