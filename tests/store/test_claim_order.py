"""Who starts first: by priority, then age, then position; and nobody is held up by those who may not."""

from __future__ import annotations

import pytest

from perdure.domain.model import Executor
from perdure.store.verbs import change
from tests.store.drafts import a_task, at_most, fixed_retry
from tests.store.scenario import Scenario


async def _claim_one_by_one(scenario: Scenario) -> list[str]:
    order: list[str] = []
    while claimed := await scenario.claim(most=1):
        order += claimed
    return order


async def test_priority_first_then_age_then_position(scenario: Scenario) -> None:
    await scenario.submit(a_task("low", priority=-1000), a_task("old 1"), a_task("old 2"))
    scenario.clock.advance(1)
    await scenario.submit(a_task("young 1"), a_task("young 2"), a_task("high", priority=1000))

    assert await _claim_one_by_one(scenario) == ["high", "old 1", "old 2", "young 1", "young 2", "low"]


async def test_the_order_holds_across_lanes(scenario: Scenario) -> None:
    for number in range(3):
        await scenario.submit(
            a_task(f"a{number}", kind="a"),
            a_task(f"b{number}", kind="b", rules=[at_most(100, "b")]),
            a_task(f"c{number}", kind="c", priority=number),
        )
        scenario.clock.advance(1)

    assert await _claim_one_by_one(scenario) == ["c2", "c1", "a0", "b0", "c0", "a1", "b1", "a2", "b2"]


@pytest.mark.parametrize("rules", [[], [at_most(1000)]], ids=["free", "limited"])
async def test_a_claim_of_several_takes_the_first_of_all_lanes(scenario: Scenario, rules: list[object]) -> None:
    kinds = "abc"
    for number in range(10):
        await scenario.submit(*[a_task(f"{kind}{number}", kind=kind, rules=rules) for kind in kinds])
        scenario.clock.advance(1)

    assert await scenario.claim(most=7) == ["a0", "a1", "a2", "b0", "b1", "c0", "c1"]


async def test_a_due_retry_goes_before_a_younger_task(scenario: Scenario) -> None:
    await scenario.submit(a_task("old", retry=fixed_retry(delay_secs=5)))
    await scenario.run("old")
    await scenario.fail("old")
    scenario.clock.advance(5)
    await scenario.submit(a_task("young"))
    await scenario.release_due()

    assert await _claim_one_by_one(scenario) == ["old", "young"]


async def test_changed_priority_counts_at_the_next_claim(scenario: Scenario) -> None:
    await scenario.submit(a_task("first"), a_task("second"))

    await scenario.edit("second", priority=5)

    assert await _claim_one_by_one(scenario) == ["second", "first"]


async def test_a_blocked_lane_does_not_hold_up_the_others(scenario: Scenario) -> None:
    blocked = [
        a_task(f"blocked {number}", kind="slow", priority=10, rules=[at_most(1, "slow")]) for number in range(50)
    ]
    await scenario.submit(*blocked, a_task("free"))

    assert await scenario.claim(most=10) == ["blocked 0", "free"]


async def test_a_lane_blocked_from_the_start_does_not_hold_up_the_others(scenario: Scenario) -> None:
    await scenario.submit(a_task("runs", kind="slow", rules=[at_most(1, "slow")]))
    await scenario.run("runs")
    await scenario.submit(
        *[a_task(f"b{number}", kind="slow", priority=9, rules=[at_most(1, "slow")]) for number in range(9)]
    )
    await scenario.submit(a_task("free"))

    assert await scenario.claim(most=1) == ["free"]


async def test_lanes_that_share_a_limit_hold_up_others_for_one_claim_at_most(scenario: Scenario) -> None:
    for number in range(6):
        rules = [at_most(1, "slow"), at_most(100 + number, "slow")]
        await scenario.submit(a_task(f"slow {number}", kind="slow", priority=9, rules=rules))
        scenario.clock.advance(1)
    await scenario.submit(a_task("free"))

    claimed = [*(await scenario.claim(most=3)), *(await scenario.claim(most=3))]

    assert claimed == ["slow 0", "free"]


async def test_only_what_was_asked_for_is_claimed(scenario: Scenario) -> None:
    await scenario.submit(a_task("job"), a_task("other", kind="other"), a_task("worker", worker=True))
    await scenario.submit(a_task("elsewhere"), namespace="elsewhere")

    assert await scenario.claim(kinds=frozenset({"other"})) == ["other"]
    assert await scenario.claim(namespaces=frozenset({"elsewhere"})) == ["elsewhere"]
    assert await scenario.claim(executor=Executor.WORKER) == ["worker"]
    assert await scenario.claim() == ["job"]


async def test_paused_kinds_and_namespaces_are_not_claimed_by_anybody(scenario: Scenario) -> None:
    other = await scenario.another()
    await scenario.submit(a_task("job"), a_task("other", kind="other"))
    await scenario.submit(a_task("elsewhere", kind="third"), namespace="elsewhere")
    scopes = [change.Scope("kind", "job"), change.Scope("namespace", "elsewhere")]

    assert await scenario.store.write(lambda session: change.pause_scope(session, scopes)) == [True, True]
    assert await scenario.store.write(lambda session: change.pause_scope(session, scopes)) == [False, False]
    assert await other.claim() == ["other"]

    assert await other.store.write(lambda session: change.resume_scope(session, scopes)) == [True, True]
    assert await other.store.write(lambda session: change.resume_scope(session, scopes)) == [False, False]
    assert await scenario.claim() == ["elsewhere", "job"]


async def test_a_paused_kind_does_not_hold_up_others(scenario: Scenario) -> None:
    await scenario.submit(*[a_task(f"job {number}", priority=5) for number in range(20)], a_task("other", kind="other"))
    await scenario.store.write(lambda session: change.pause_scope(session, [change.Scope("kind", "job")]))

    assert await scenario.claim(most=1) == ["other"]


async def test_what_is_claimed_already_goes_on_when_its_kind_is_paused(scenario: Scenario) -> None:
    await scenario.submit(a_task("job"))
    await scenario.claim()
    await scenario.store.write(lambda session: change.pause_scope(session, [change.Scope("kind", "job")]))

    await scenario.accept("job")
    await scenario.succeed("job")

    assert await scenario.status("job") == "success"


async def test_fifty_thousand_blocked_tasks_in_front_cost_no_more_than_ten(scenario: Scenario) -> None:
    rules = [at_most(1, "slow")]
    await scenario.submit(a_task("runs", kind="slow", rules=rules), a_task("free 1"), a_task("free 2"))
    await scenario.run("runs")
    seen: list[tuple[list[str], list[str]]] = []
    for many in (10, 50_000):
        await scenario.submit(
            *[a_task(f"{many} {number}", kind="slow", priority=9, rules=rules) for number in range(many)]
        )
        statements: list[str] = []
        scenario.store.on_query(lambda name, _, statements=statements: statements.append(name))  # type: ignore[misc]
        claimed = await scenario.claim_rows(most=1)
        seen.append((statements, [scenario.key_of(row["id"]) for row in claimed.to_start]))
        # A candidate that may not start is not even looked at.
        assert claimed.seen == 1

    (few, first), (many_statements, second) = seen
    assert (first, second) == (["free 1"], ["free 2"])
    assert many_statements == few[: len(many_statements)]
