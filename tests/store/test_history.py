"""What explains afterwards what happened: events for every move, a row for every attempt."""

from __future__ import annotations

from perdure.domain.model import ErrorClass
from tests.store.drafts import a_task, broken, fixed_retry
from tests.store.scenario import Scenario


async def test_every_move_leaves_an_event(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", retry=fixed_retry(delay_secs=5)), a_task("child", after="task"))
    await scenario.claim()
    scenario.clock.advance("1h")
    await scenario.reap()
    await scenario.run("task")
    await scenario.fail("task")
    scenario.clock.advance(5)
    await scenario.release_due()
    await scenario.run("task")
    await scenario.succeed("task")

    assert await scenario.moves("task") == [
        ("pending", "claimed"),
        ("claimed", "pending"),
        ("pending", "claimed"),
        ("claimed", "running"),
        ("running", "retry_pending"),
        ("retry_pending", "pending"),
        ("pending", "claimed"),
        ("claimed", "running"),
        ("running", "success"),
    ]
    assert await scenario.moves("child") == [("waiting", "pending")]


async def test_an_event_says_when_who_why_and_in_which_attempt(scenario: Scenario) -> None:
    other = await scenario.another("there")
    await scenario.submit(a_task("task", retry=fixed_retry()))
    await scenario.run("task")
    scenario.clock.advance(3)

    await other.fail("task", failure=broken("no disk"))

    event = (await scenario.fetch("task_events", id=scenario.ids["task"], most=10))[-1]
    assert (event["at"], event["instance"]) == (scenario.clock.now(), "there")
    assert (event["reason"], event["attempt"]) == ("no disk", 1)


async def test_pause_and_resume_are_events_too(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))

    await scenario.pause("task")
    await scenario.resume("task")

    assert await scenario.moves("task") == [("pending", "paused"), ("paused", "pending")]


async def test_endings_name_their_reason(scenario: Scenario) -> None:
    batch_id = await scenario.submit(
        a_task("bad"), a_task("doomed", after="bad"), a_task("useless"), a_task("leaf", after="useless"), a_task("rest")
    )
    await scenario.run("bad")
    await scenario.fail("bad", failure=broken("broke"))
    await scenario.cancel("leaf", reason="not wanted")
    await scenario.stop(batch_id)

    reasons = {}
    for key in ("bad", "doomed", "useless", "leaf", "rest"):
        reasons[key] = (await scenario.fetch("task_events", id=scenario.ids[key], most=10))[-1]["reason"]
    assert reasons == {
        "bad": "broke",
        "doomed": "Parent task bad failed",
        "useless": "all child tasks already ended",
        "leaf": "not wanted",
        "rest": "Batch stopped",
    }


async def test_an_attempt_is_a_row_once_it_is_over(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", retry=fixed_retry(delay_secs=7)))
    await scenario.run("task")
    started_at = scenario.clock.now()
    assert await scenario.attempts("task") == []
    ended_at = scenario.clock.advance(4)

    await scenario.fail("task", failure=broken("down", http_status=503, code="upstream"))

    (row,) = await scenario.attempts("task")
    assert dict(row) == {
        "attempt": 0,
        "instance": "here",
        "started_at": started_at,
        "ended_at": ended_at,
        "outcome": "failure",
        "trigger": "explicit",
        "error_class": "retryable",
        "http_status": 503,
        "code": "upstream",
        "message": "down",
        "delay_secs": 7.0,
        "delay_source": "fixed",
        "charged": True,
        "next_retry_at": (await scenario.task("task")).next_retry_at,
    }


async def test_every_attempt_that_was_worked_on_has_a_row_and_no_other(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("succeeded"),
        a_task("failed"),
        a_task("canceled"),
        a_task("claimed"),
        a_task("unstarted"),
        a_task("doomed", after="failed"),
    )
    await scenario.run("succeeded", "failed", "canceled")
    await scenario.succeed("succeeded")
    await scenario.fail("failed", failure=broken(error_class=ErrorClass.FINAL))
    await scenario.cancel("canceled")
    await scenario.cancel("unstarted")
    await scenario.claim()
    await scenario.cancel("claimed")

    outcomes = {key: [row["outcome"] for row in await scenario.attempts(key)] for key in scenario.ids}
    assert outcomes == {
        "succeeded": ["success"],
        "failed": ["failure"],
        "canceled": ["canceled"],
        "claimed": ["canceled"],
        "unstarted": [],
        "doomed": [],
    }


async def test_a_claim_that_ran_out_is_no_attempt_of_its_own(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.claim()
    scenario.clock.advance("1h")
    await scenario.reap()
    await scenario.run("task")
    await scenario.succeed("task")

    assert [(row["attempt"], row["outcome"]) for row in await scenario.attempts("task")] == [(0, "success")]


async def test_the_history_is_bounded(scenario: Scenario) -> None:
    short = await scenario.another("short", history_max_attempts=4)
    await scenario.submit(a_task("task", retry=fixed_retry(delay_secs=0, max_retries=10)))
    for _ in range(8):
        await scenario.release_due()
        await scenario.run("task")
        await short.fail("task")

    # The first stays, the oldest in the middle go.
    assert [row["attempt"] for row in await scenario.attempts("task")] == [0, 5, 6, 7]
    assert (await scenario.task("task")).attempt == 8
