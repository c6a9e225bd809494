"""Many instances at once on one PostgreSQL: nothing is lost, nothing happens twice, no limit is exceeded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from random import Random

import pytest

from perdure.domain.drafts import BatchDraft
from perdure.domain.errors import NotRunning, PerdureError, StaleAttempt
from perdure.domain.states import ACTIVE, Status
from perdure.store.verbs.submit import Submit, submit
from tests.store.drafts import a_call, a_task, at_most, broken, fixed_retry, work_below
from tests.store.scenario import Scenario, counted
from tests.store.test_outbox import take

INSTANCES = 10


@pytest.fixture
async def instances(postgres_scenario: Scenario) -> list[Scenario]:
    """Ten instances on one database, at the same time of day."""
    others = [await postgres_scenario.another(f"instance {number}") for number in range(1, INSTANCES)]
    return [postgres_scenario, *others]


async def _run_all(scenario: Scenario) -> None:
    """Bring every pending task to Running."""
    rows = (await scenario.claim_rows()).to_start
    await scenario.answer(*[await scenario.answered(scenario.key_of(row["id"]), 0) for row in rows])


async def _released(scenario: Scenario) -> dict[str, int]:
    """How often each task went from Waiting to Pending."""
    rows = await scenario.query("SELECT task_id FROM event WHERE from_status = 'waiting' AND to_status = 'pending'")
    return dict(counted(scenario.key_of(row["task_id"]) for row in rows))


async def test_a_child_is_released_once_when_its_parents_end_at_the_same_moment(instances: list[Scenario]) -> None:
    left, right = instances[:2]
    pairs = 1000
    drafts = [
        BatchDraft([a_task(f"l{n}"), a_task(f"r{n}"), a_task(f"child {n}", after=[f"l{n}", f"r{n}"])])
        for n in range(pairs)
    ]
    items = [Submit(left.prepare(draft)) for draft in drafts]
    await left.store.write(lambda session: submit(session, items))
    for item in items:
        left.know(item.submission.tasks)
    await _run_all(left)

    alone = [[n] for n in range(pairs // 2)]
    together = [list(range(n, n + 10)) for n in range(pairs // 2, pairs, 10)]
    for numbers in [*alone, *together]:
        await asyncio.gather(
            left.succeed(*[f"l{n}" for n in numbers]), right.succeed(*[f"r{n}" for n in reversed(numbers)])
        )

    assert await _released(left) == {f"child {n}": 1 for n in range(pairs)}


async def test_a_child_of_many_parents_in_one_batch_is_released_once(instances: list[Scenario]) -> None:
    first = instances[0]
    parents = [f"parent {n}" for n in range(200)]
    await first.submit(*[a_task(key) for key in parents], a_task("child", after=parents), a_task("last", after="child"))
    await _run_all(first)

    async def finish(scenario: Scenario, keys: list[str]) -> None:
        for key in keys:
            await scenario.succeed(key)

    await asyncio.gather(*[finish(one, parents[number::INSTANCES]) for number, one in enumerate(instances)])

    assert await _released(first) == {"child": 1}


async def test_every_task_is_claimed_once(instances: list[Scenario]) -> None:
    await instances[0].submit(*[a_task(str(number), kind=f"kind {number % 3}") for number in range(1000)])

    async def claim_all(scenario: Scenario) -> list[str]:
        claimed: list[str] = []
        while await scenario.query("SELECT 1 AS one FROM task WHERE status = 'pending' LIMIT 1"):
            claimed += await scenario.claim(most=13)
        return claimed

    shares = await asyncio.gather(*[claim_all(one) for one in instances])

    assert sorted(key for share in shares for key in share) == sorted(str(number) for number in range(1000))
    moves = await instances[0].query("SELECT task_id FROM event WHERE to_status = 'claimed'")
    assert len(moves) == 1000
    rows = await instances[0].query("SELECT id FROM webhook_execution")
    assert len(rows) == 1000


async def test_no_limit_is_ever_exceeded(instances: list[Scenario]) -> None:
    first = instances[0]
    per_customer = [at_most(5), at_most(2, "job", "customer")]
    await first.submit(
        *[a_task(f"job {n}", rules=per_customer, metadata={"customer": n % 4}) for n in range(120)],
        *[a_task(f"bulk {n}", kind="bulk", rules=[work_below(100, "bulk")], expected_count=40) for n in range(40)],
        *[a_task(f"free {n}", kind="free") for n in range(40)],
    )
    limits = {"kind_limits": {"free": 3}}
    samples: list[tuple[int, int]] = []

    async def work(scenario: Scenario) -> None:
        while await scenario.query("SELECT 1 AS one FROM task WHERE status = 'pending' LIMIT 1"):
            keys = await scenario.claim(most=4, **limits)
            await scenario.accept(*keys)
            counts = await scenario.query("SELECT kind FROM task WHERE status IN ('claimed', 'running')")
            kinds = counted(row["kind"] for row in counts)
            samples.append((kinds.get("job", 0), kinds.get("free", 0)))
            if keys:
                await scenario.succeed(*keys)

    await asyncio.gather(*[work(one) for one in instances])

    assert set((await first.statuses()).values()) == {"success"}
    assert max(jobs for jobs, _ in samples) <= 5
    assert max(free for _, free in samples) <= 3
    await _audit_limits(first)


async def _audit_limits(scenario: Scenario) -> None:
    """Replay the audit trail: an end that made room was written before the claim that took it."""
    running: dict[str, set[str]] = {}
    for event in await scenario.query("SELECT task_id, from_status, to_status FROM event ORDER BY seq"):
        key = scenario.key_of(event["task_id"])
        kind, number = key.split()
        watched = [kind] + ([f"customer {int(number) % 4}"] if kind == "job" else [])
        for one in watched:
            if event["to_status"] == Status.CLAIMED:
                # Work left is 40 a task: below 100 while two run, so a third may start and no fourth.
                most = {"job": 5, "bulk": 3, "free": 3}.get(one, 2)
                running.setdefault(one, set()).add(key)
                assert len(running[one]) <= most, f"{one}: {running[one]}"
            elif event["from_status"] in ACTIVE and event["to_status"] not in ACTIVE:
                running[one].discard(key)


async def test_twelve_reports_of_one_failure_count_once(instances: list[Scenario]) -> None:
    first = instances[0]
    await first.submit(a_task("task", retry=fixed_retry()), a_task("child", after="task"))
    await first.run("task")
    reporters = [*instances, *[await first.another(f"more {number}") for number in range(2)]]

    results = await asyncio.gather(
        *[one.fail("task", failure=broken(f"seen by {number}"), attempt=0) for number, one in enumerate(reporters)],
        return_exceptions=True,
    )

    assert len(reporters) == 12
    refusals = [result for result in results if result is not None]
    assert len(refusals) == 11
    for refusal in refusals:
        assert isinstance(refusal, StaleAttempt)
        assert (refusal.status_label, refusal.attempt) == ("RetryPending", 1)
    task = await first.task("task")
    assert (task.status, task.attempt, task.retry_count) == (Status.RETRY_PENDING, 1, 1)
    assert len(await first.attempts("task")) == 1


async def test_of_success_and_cancel_one_wins_and_the_other_is_told(instances: list[Scenario]) -> None:
    one, other = instances[:2]
    keys = [str(number) for number in range(50)]
    await one.submit(*[a_task(key, on_success=[a_call("done")], on_cancel=[a_call("stop")]) for key in keys])
    await _run_all(one)

    for key in keys:
        succeeded, canceled = await asyncio.gather(one.succeed(key), other.cancel(key), return_exceptions=True)
        loser = canceled if succeeded is None else succeeded
        assert isinstance(loser, NotRunning)
        assert (succeeded is None) != (canceled is None)
        status = await one.status(key)
        assert status is (Status.SUCCESS if succeeded is None else Status.CANCELED)
        assert loser.status_label == status.label
        assert await one.hooks(key) == ["success:0" if succeeded is None else "cancel:0"]


async def _until_nothing_is_left(act: Callable[[], Awaitable[int]]) -> int:
    total = 0
    while done := await act():
        total += done
    return total


async def test_a_claim_that_ran_out_is_taken_back_once(instances: list[Scenario]) -> None:
    first = instances[0]
    await first.submit(*[a_task(str(number)) for number in range(100)])
    await first.claim()
    first.clock.advance("1h")

    totals = await asyncio.gather(*[_until_nothing_is_left(partial(one.reap, 7)) for one in instances])

    assert sum(totals) + await first.reap() == 100
    assert len(await first.query("SELECT seq FROM event WHERE to_status = 'pending'")) == 100


async def test_a_due_retry_is_released_once(instances: list[Scenario]) -> None:
    first = instances[0]
    keys = [str(number) for number in range(100)]
    await first.submit(*[a_task(key, retry=fixed_retry()) for key in keys])
    await _run_all(first)
    await first.fail(*keys)
    first.clock.advance("1h")

    totals = await asyncio.gather(*[_until_nothing_is_left(partial(one.release_due, 7)) for one in instances])

    assert sum(totals) + await first.release_due() == 100
    assert len(await first.query("SELECT seq FROM event WHERE from_status = 'retry_pending'")) == 100


async def test_every_delivery_is_taken_once(instances: list[Scenario]) -> None:
    first = instances[0]
    keys = [str(number) for number in range(200)]
    await first.submit(*[a_task(key, on_success=[a_call("done")]) for key in keys])
    await _run_all(first)
    await first.succeed(*keys)

    async def take_all(scenario: Scenario) -> list[str]:
        taken: list[str] = []
        while rows := await take(scenario, most=9):
            taken += [row["idempotency_key"] for row in rows]
        return taken

    shares = await asyncio.gather(*[take_all(one) for one in instances])

    taken = [key for share in shares for key in share]
    assert len(taken) == len(set(taken)) <= 200
    assert len(taken) + len(await take(first, most=200)) == 200


Disturbance = Callable[[Scenario, list[str]], Awaitable[object]]
DISTURBANCES: list[Disturbance] = [
    lambda scenario, _: scenario.claim(most=4),
    lambda scenario, some: scenario.accept(*some),
    lambda scenario, some: scenario.succeed(*some),
    lambda scenario, some: scenario.fail(*some),
    lambda scenario, some: scenario.cancel(some[0]),
    lambda scenario, some: scenario.pause(*some[:2]),
    lambda scenario, some: scenario.resume(*some[:2]),
    lambda scenario, some: scenario.count(some[0], success=1),
    lambda scenario, some: scenario.retry(some[0]),
    lambda scenario, _: scenario.release_due(),
]


async def test_instances_that_do_everything_at_once_meet_no_deadlock(instances: list[Scenario]) -> None:
    """Refusals are fine, errors of the database are not; the audit afterwards sees whether all is well."""
    first = instances[0]
    batches = []
    for name in "abc":
        layers = [[f"{name}{layer}{n}" for n in range(6)] for layer in range(3)]
        batches.append(
            await first.submit(
                *[a_task(key, retry=fixed_retry(delay_secs=0)) for key in layers[0]],
                *[a_task(key, after=dict.fromkeys(layers[0], "always")) for key in layers[1]],
                *[a_task(key, after=layers[1][:3]) for key in layers[2]],
            )
        )

    async def disturb(scenario: Scenario, rng: Random) -> None:
        for _ in range(25):
            some = rng.sample(list(scenario.ids), 5)
            with suppress(PerdureError):
                await rng.choice(DISTURBANCES)(scenario, some)

    await asyncio.gather(*[disturb(one, Random(number)) for number, one in enumerate(instances)])
    await asyncio.gather(*[one.stop(batch_id) for one in instances[:3] for batch_id in batches])

    assert {Status(status).is_live for status in (await first.statuses()).values()} == {False}
