"""How time passes in a simulation, and what is told when something is not as it should be."""

from __future__ import annotations

import pytest

from perdure.domain.errors import Invalid, NotFound
from perdure.testing import NeverIdle, Simulation
from tests.testing.tasks import STEADY, call, webhook


async def test_time_stands_still_until_it_is_told_to_pass(sim: Simulation) -> None:
    began = sim.now
    await sim.submit([call("https://pay", delay="1m")])

    await sim.advance("59s")
    sim.assert_attempts("charge", 0)
    await sim.advance("1s")
    sim.assert_attempts("charge", 1)
    await sim.advance("1h")

    assert (sim.now - began).total_seconds() == 3660


async def test_everything_on_the_way_happens_at_its_own_moment(sim: Simulation) -> None:
    sim.http("https://pay").answers(503).times(3)
    await sim.submit([call("https://pay", retry=STEADY), call("https://ship", "ship", delay="25s")])

    await sim.advance("7d")

    began = sim.sent[0].at
    calls = [((sent.at - began).total_seconds(), sent.url) for sent in sim.sent]
    assert calls == [
        (0, "https://pay"),
        (10, "https://pay"),
        (25, "https://ship"),
        (30, "https://pay"),
        (70, "https://pay"),
    ]


async def test_idle_is_when_nothing_will_ever_happen(sim: Simulation) -> None:
    began = sim.now
    await sim.submit([{"id": "alone", "name": "nobody runs this kind", "kind": "unknown"}])

    assert await sim.run_until_idle() == began
    assert sim.status("alone") == "Pending"


async def test_a_receiver_reports_later(sim: Simulation) -> None:
    await sim.submit([call("https://pay", completion="callback", timeout=60)])
    await sim.advance("30s")
    sim.assert_status("charge", "Running")

    await sim.report("charge", "Success", result={"paid": True})

    await sim.run_until_idle()
    assert sim.timeline("charge") == [(0, "Pending"), (0, "Claimed"), (0, "Running"), (30, "Success")]


async def test_a_receiver_that_never_reports_times_out(sim: Simulation) -> None:
    task = call("https://pay", completion="callback", timeout=60, retry={**STEADY, "max_retries": 1})
    await sim.submit([{**task, "on_cancel": [webhook("https://pay/cancel")]}])

    await sim.run_until_idle()

    assert [(attempt.after_secs, attempt.trigger) for attempt in sim.attempts("charge")] == [
        (0, "timeout"),
        (70, "timeout"),
    ]
    sim.assert_status("charge", "Failure")
    assert [sent.trigger for sent in sim.sent] == ["start", "cancel", "start", "cancel"]


async def test_no_one_of_many_that_time_out_together_is_left_behind(sim: Simulation) -> None:
    tasks = await sim.submit([call("https://pay", f"{number}", completion="callback") for number in range(600)])

    await sim.run_until_idle()

    assert {sim.timeline(task)[-1] for task in tasks.values()} == {(60, "Failure: Timeout")}


async def test_a_reported_failure_is_retried_by_the_policy(sim: Simulation) -> None:
    await sim.submit([call("https://pay", completion="callback", retry=STEADY)])
    await sim.advance(0)

    await sim.report("charge", "Failure", code="card_declined")
    await sim.advance("10s")

    first, second = sim.attempts("charge")
    assert (first.outcome, first.code, first.delay_secs) == ("failure", "card_declined", 10)
    assert (second.outcome, second.after_secs) == (None, 10)


async def test_canceled_and_retried_by_hand(sim: Simulation) -> None:
    sim.http("https://pay").down()
    await sim.submit([call("https://pay", retry=STEADY)])
    await sim.advance("5s")

    await sim.cancel("charge")
    await sim.run_until_idle()
    sim.assert_status("charge", "Canceled")

    sim.http("https://pay").answers(200)
    await sim.retry("charge")
    await sim.run_until_idle()
    sim.assert_status("charge", "Success")
    sim.assert_attempts("charge", 2)


async def test_what_never_ends_is_given_up(sim: Simulation) -> None:
    sim.http("https://pay").rate_limited("1s").then().rate_limited("365d")
    await sim.submit([call("https://pay", retry=STEADY)])

    with pytest.raises(NeverIdle, match="after 5 moments"):
        await sim.run_until_idle(most_moments=5)


async def test_a_failed_assertion_shows_the_timeline(sim: Simulation) -> None:
    sim.http("https://pay").answers(503).then(200)
    await sim.submit([call("https://pay", retry=STEADY)])
    await sim.run_until_idle()

    with pytest.raises(AssertionError) as failed:
        sim.assert_attempts("charge", 3)
    assert str(failed.value).splitlines() == [
        "3 attempts were expected, 2 were made:",
        "   0s  Pending",
        "   0s  Claimed",
        "   0s  RetryPending: on_start webhook failed: HTTP 503",
        "  10s  Pending",
        "  10s  Claimed",
        "  10s  Success",
    ]
    with pytest.raises(AssertionError, match="Failure was expected, the task is Success:\n   0s  Pending"):
        sim.assert_status("charge", "Failure")


async def test_tasks_are_checked_as_the_api_checks_them(sim: Simulation) -> None:
    with pytest.raises(Invalid, match=r"tasks\[0\]\.retry\.max_retries"):
        await sim.submit([call("https://pay", retry={"max_retries": 0})])


async def test_tasks_are_named_by_id_or_by_a_key_that_is_unique(sim: Simulation) -> None:
    first = await sim.submit([call("https://pay")])
    assert sim.status("charge") == sim.status(first["charge"]) == "Pending"

    await sim.submit([call("https://pay")])
    with pytest.raises(ValueError, match="2 tasks have the key 'charge'"):
        sim.status("charge")
    with pytest.raises(NotFound):
        sim.status("refund")


async def test_it_runs_on_postgres_as_well(postgres_url: str) -> None:
    async with Simulation(postgres_url) as sim:
        sim.http("https://pay").down("40m").then(200)
        await sim.submit([call("https://pay", retry={**STEADY, "max_retries": 10}, on_success=[webhook("https://b")])])

        await sim.run_until_idle()

        sim.assert_status("charge", "Success")
        sim.assert_attempts("charge", 9)
        assert len(sim.sent_to("https://b")) == 1
