"""Every move of a task, by the one table of transitions: allowed from its sources, refused from everywhere else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from perdure.domain.errors import Conflict, NotFound, NotRunning, StaleAttempt
from perdure.domain.model import ErrorClass
from perdure.domain.states import ACTIVE, LIVE, Event, Status, sources, target
from perdure.store.interface import Session
from perdure.store.verbs import change, end, fail, report
from tests.store.drafts import a_task, broken, fixed_retry
from tests.store.scenario import Scenario
from tests.store.states import STATES, one_in_each_state

UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"


async def _accept(scenario: Scenario) -> None:
    await scenario.accept(*STATES)


async def _reap(scenario: Scenario) -> None:
    scenario.clock.advance("1h")
    await scenario.reap()


async def _release_due(scenario: Scenario) -> None:
    scenario.clock.advance("1h")
    await scenario.release_due()


async def _claim(scenario: Scenario) -> None:
    await scenario.claim()


async def _begin(scenario: Scenario) -> None:
    async def begin(session: Session) -> None:
        rows = await session.query("SELECT id, lane FROM task", [])
        await session.fetch(
            "begin", [(row["id"], row["lane"]) for row in rows], instance="a worker", lease_until=session.now
        )

    await scenario.store.write(begin)


def _one_by_one(ask: Callable[[Scenario, str], Awaitable[None]]) -> Callable[[Scenario], Awaitable[None]]:
    async def ask_for_all(scenario: Scenario) -> None:
        for key in STATES:
            with suppress(Conflict):
                await ask(scenario, key)

    return ask_for_all


#: What makes each event happen to a task in every state.
ATTEMPTS = {
    Event.CLAIMED: _claim,
    Event.BEGUN: _begin,
    Event.STARTED: _accept,
    Event.LEASE_LOST: _reap,
    Event.SUCCEEDED: _one_by_one(lambda scenario, key: scenario.succeed(key)),
    Event.RETRY_SCHEDULED: _one_by_one(lambda scenario, key: scenario.fail(key)),
    Event.FAILED: _one_by_one(
        lambda scenario, key: scenario.fail(key, failure=broken(error_class=ErrorClass.FINAL)),
    ),
    Event.RETRY_DUE: _release_due,
    Event.CANCELED: _one_by_one(lambda scenario, key: scenario.cancel(key)),
    Event.RETRIED_BY_HAND: _one_by_one(lambda scenario, key: scenario.retry(key)),
}


@pytest.mark.parametrize("event", ATTEMPTS, ids=lambda event: event.name.lower())
async def test_an_event_moves_tasks_in_the_states_that_it_leaves_and_no_others(
    scenario: Scenario, event: Event
) -> None:
    await one_in_each_state(scenario)

    await ATTEMPTS[event](scenario)

    expected = {status.value: target(event) if status in sources(event) else status for status in Status}
    assert await scenario.statuses(*STATES) == expected


@pytest.mark.parametrize(
    ("event", "condition", "outcome"),
    [
        (Event.RELEASED, "on_success", "success"),
        (Event.PARENT_FAILED, "on_success", "failure"),
        (Event.CONDITION_LOST, "on_failure", "success"),
    ],
    ids=lambda value: value.name.lower() if isinstance(value, Event) else value,
)
async def test_a_parent_moves_children_that_wait_and_no_others(
    scenario: Scenario, event: Event, condition: str, outcome: str
) -> None:
    # Given a running parent with a child in each state that a child of a live parent can be in.
    wait = {"parent": condition}
    await scenario.submit(
        a_task("parent"),
        a_task("broke"),
        a_task("ended well"),
        a_task("other"),
        a_task("waiting", after=wait),
        a_task("held", after={**wait, "other": "on_success"}),
        a_task("canceled", after=wait),
        a_task("failure", after={**wait, "broke": "on_success"}),
        a_task("skipped", after={**wait, "ended well": "on_failure"}),
        a_task("sibling", after={"parent": "always", "other": "always"}),
    )
    await scenario.run("parent", "broke", "ended well")
    await scenario.cancel("canceled")
    await scenario.fail("broke")
    await scenario.succeed("ended well")

    await (scenario.succeed("parent") if outcome == "success" else scenario.fail("parent"))

    held = Status.WAITING if event is Event.RELEASED else target(event)
    ended = {"canceled": "canceled", "failure": "failure", "skipped": "skipped"}
    assert await scenario.statuses("waiting", "held", *ended) == {"waiting": target(event), "held": held, **ended}


async def test_a_retried_parent_moves_children_that_ended_in_its_wake_and_no_others(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("parent"),
        a_task("ended well"),
        a_task("failure", after="parent"),
        a_task("canceled", after="parent"),
        a_task("skipped", after={"parent": "on_success", "ended well": "on_failure"}),
        a_task("pending", after={"parent": "on_failure"}),
    )
    await scenario.run("parent", "ended well")
    await scenario.succeed("ended well")
    await scenario.cancel("canceled")
    await scenario.fail("parent")

    await scenario.retry("parent")

    assert await scenario.statuses("failure", "canceled", "skipped", "pending") == {
        "failure": target(Event.RESTORED),
        "canceled": "canceled",
        "skipped": "skipped",
        "pending": "pending",
    }


def test_every_event_is_covered_here() -> None:
    by_parents = {Event.RELEASED, Event.PARENT_FAILED, Event.CONDITION_LOST, Event.RESTORED}

    assert {*ATTEMPTS, *by_parents} == set(Event)


@pytest.mark.parametrize("status", [status for status in Status if status not in ACTIVE], ids=str)
async def test_a_result_that_comes_too_late_is_told_who_won(scenario: Scenario, status: Status) -> None:
    await one_in_each_state(scenario)
    id, attempt = scenario.ids[status], (await scenario.task(status)).attempt

    succeeded = await scenario.store.write(lambda session: end.succeed(session, [end.Succeed(id, None)]))
    failed = await scenario.store.write(
        lambda session: fail.fail(session, [fail.Failed(id, None, broken())], scenario.decide)
    )
    reported = await scenario.store.write(
        lambda session: report.apply_reports(session, [report.Report(id, None, succeeded=True)], scenario.decide)
    )

    for refusal in (*succeeded, *failed, *reported):
        assert isinstance(refusal, NotRunning)
        assert (refusal.status_label, refusal.attempt) == (status.label, attempt)
        assert str(refusal) == f"The task is {status.label}, not running; nothing was changed."


@pytest.mark.parametrize("status", [status for status in Status if status not in LIVE], ids=str)
async def test_an_ended_task_is_not_canceled_paused_resumed_or_edited(scenario: Scenario, status: Status) -> None:
    await one_in_each_state(scenario)

    for ask in (scenario.cancel, scenario.pause, scenario.resume, scenario.edit):
        with pytest.raises(NotRunning, match=status.label) as refused:
            await ask(status.value)
        assert refused.value.status_label == status.label

    assert await scenario.status(status) is status


@pytest.mark.parametrize("status", [Status.CLAIMED, Status.RUNNING], ids=str)
async def test_a_report_from_an_attempt_that_is_over_changes_nothing(scenario: Scenario, status: Status) -> None:
    # Given a task in its second attempt
    await scenario.submit(a_task("task", retry=fixed_retry(delay_secs=0)))
    await scenario.run("task")
    await scenario.fail("task")
    await scenario.release_due()
    await scenario.claim()
    if status is Status.RUNNING:
        await scenario.accept("task")

    # When its first attempt reports
    for ask in (scenario.succeed, scenario.fail):
        with pytest.raises(StaleAttempt, match=f"Attempt 0 is over; the task is {status.label} in attempt 1") as late:
            await ask("task", attempt=0)
        assert (late.value.status_label, late.value.attempt) == (status.label, 1)
    await scenario.accept("task", attempt=0)
    await scenario.refuse("task", broken("late"), attempt=0)
    await scenario.finish("task", attempt=0)
    assert await scenario.release("task", attempt=0) == 0

    # Then the second one goes on, and its own report counts
    assert await scenario.status("task") is status
    await scenario.succeed("task", attempt=1)
    assert await scenario.status("task") is Status.SUCCESS


async def test_a_report_of_an_attempt_to_come_is_refused(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.run("task")

    with pytest.raises(StaleAttempt):
        await scenario.succeed("task", attempt=1)

    assert await scenario.status("task") is Status.RUNNING


async def test_of_two_results_in_one_transaction_the_first_counts(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.run("task")
    id = scenario.ids["task"]

    first, second = await scenario.store.write(
        lambda session: end.succeed(session, [end.Succeed(id, 0, '"one"'), end.Succeed(id, 0, '"two"')])
    )

    assert not isinstance(first, Exception)
    assert isinstance(second, NotRunning)
    assert second.status_label == "Success"
    assert (await scenario.task("task")).result == '"one"'


async def test_of_two_failures_in_one_transaction_the_first_counts(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", retry=fixed_retry()))
    await scenario.run("task")
    items = [fail.Failed(scenario.ids["task"], 0, broken(message)) for message in ("one", "two")]

    first, second = await scenario.store.write(lambda session: fail.fail(session, items, scenario.decide))

    assert not isinstance(first, Exception)
    assert isinstance(second, StaleAttempt)
    assert [row["message"] for row in await scenario.attempts("task")] == ["one"]


async def test_cancel_and_success_at_once_tell_each_other(scenario: Scenario) -> None:
    await scenario.submit(a_task("canceled"), a_task("succeeded"))
    await scenario.run("canceled", "succeeded")
    await scenario.cancel("canceled")
    await scenario.succeed("succeeded")

    with pytest.raises(NotRunning, match="The task is Canceled, not running"):
        await scenario.succeed("canceled")
    with pytest.raises(NotRunning, match="The task has already ended: Success"):
        await scenario.cancel("succeeded")

    assert await scenario.statuses() == {"canceled": "canceled", "succeeded": "success"}


async def test_what_does_not_exist_is_not_found(scenario: Scenario) -> None:
    scenario.ids["nobody"] = UNKNOWN

    for ask in (scenario.succeed, scenario.fail, scenario.cancel, scenario.pause, scenario.resume, scenario.edit):
        with pytest.raises(NotFound, match=f"There is no task {UNKNOWN}"):
            await ask("nobody")
    with pytest.raises(NotFound, match=f"There is no batch {UNKNOWN}"):
        await scenario.stop(UNKNOWN)
    (unchanged,) = await scenario.store.write(
        lambda session: change.change_rules(session, [change.ChangeRules(UNKNOWN, "job", lambda _: ([], []))])
    )
    assert isinstance(unchanged, NotFound)
