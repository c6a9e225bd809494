"""Receivers that fail and come back, and what the policies of tasks make of it."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.testing import Simulation
from tests.testing.tasks import STEADY, call, webhook

DAY = 86_400


def starts(sim: Simulation, task: str) -> list[float]:
    """When the attempts of a task began, in seconds from its submission."""
    return [attempt.after_secs for attempt in sim.attempts(task)]


async def test_an_outage_of_forty_minutes_is_outlived(sim: Simulation) -> None:
    sim.http("https://pay").down("40m").then(200, json={"receipt": 7})
    await sim.submit([call("https://pay/charges", retry={**STEADY, "max_retries": 10})])

    await sim.run_until_idle()

    sim.assert_status("charge", "Success")
    assert starts(sim, "charge") == [0, 10, 30, 70, 150, 310, 630, 1270, 2550]
    assert {attempt.code for attempt in sim.attempts("charge")[:-1]} == {"connection_error"}
    assert sim.attempts("charge")[0].reason == "on_start webhook failed: connection refused by pay:443"
    assert (sim.now - sim.sent[0].at).total_seconds() == 2550


async def test_the_wait_that_a_receiver_asks_for_is_kept_and_costs_no_retry(sim: Simulation) -> None:
    sim.http("https://pay").rate_limited("120s").then(503).then(200)
    await sim.submit([call("https://pay/charges", retry={**STEADY, "max_retries": 1})])

    await sim.run_until_idle()

    sim.assert_status("charge", "Success")
    assert starts(sim, "charge") == [0, 120, 130]
    assert [attempt.charged for attempt in sim.attempts("charge")] == [False, True, None]
    assert [sent.answer for sent in sim.sent] == ["HTTP 429", "HTTP 503", "HTTP 200"]


async def test_a_schedule_of_weeks_ends_at_its_deadline(sim: Simulation) -> None:
    sim.http("https://partner").answers(503)
    await sim.submit(
        [
            call(
                "https://partner/orders",
                "order",
                retry={
                    "strategy": "custom",
                    "schedule": ["1d", "3d", "7d", "7d", "7d"],
                    "max_retries": 10,
                    "jitter": "none",
                    "expires_after_secs": 14 * DAY,
                },
            )
        ]
    )

    await sim.advance("13d")
    sim.assert_status("order", "Failure")

    assert starts(sim, "order") == [0, DAY, 4 * DAY, 11 * DAY]
    assert "retry_deadline" in sim.timeline("order")[-1].what
    assert (sim.now - sim.sent[0].at).days == 13


async def test_fourteen_days_pass_from_moment_to_moment(sim: Simulation) -> None:
    sim.http("https://partner").down("13d").then(200)
    policy = {"strategy": "custom", "schedule": ["2d"], "max_retries": 10, "jitter": "none"}
    await sim.submit([call("https://partner", "order", retry=policy)])

    await sim.run_until_idle()

    assert starts(sim, "order") == [days * DAY for days in range(0, 15, 2)]
    sim.assert_status("order", "Success")


async def test_the_middle_of_a_dag_fails_and_recovers(sim: Simulation) -> None:
    sim.http("https://shop/pay").answers(500).times(2).then(200)
    await sim.batch(
        [
            call("https://shop/reserve", "reserve"),
            call("https://shop/pay", "pay", after=("reserve",), retry=STEADY),
            call("https://shop/ship", "ship", after=("pay",)),
        ],
        name="order 7",
    )

    await sim.advance("29s")
    assert [sim.status(task) for task in ("reserve", "pay", "ship")] == ["Success", "RetryPending", "Waiting"]

    await sim.run_until_idle()
    assert [sim.status(task) for task in ("reserve", "pay", "ship")] == ["Success", "Success", "Success"]
    assert [sent.url.rpartition("/")[2] for sent in sim.sent] == ["reserve", "pay", "pay", "pay", "ship"]
    assert starts(sim, "ship") == [30]


async def test_a_middle_that_never_recovers_takes_its_children_along(sim: Simulation) -> None:
    sim.http("https://shop/pay").answers(402)
    await sim.batch([call("https://shop/pay", "pay", retry=STEADY), call("https://shop/ship", "ship", after=("pay",))])

    await sim.run_until_idle()

    sim.assert_attempts("pay", 1)
    sim.assert_attempts("ship", 0)
    assert [sim.status(task) for task in ("pay", "ship")] == ["Failure", "Failure"]


async def test_end_webhooks_reach_a_receiver_that_was_away(sim: Simulation) -> None:
    sim.http("https://audit").down("10m").then(200)
    await sim.submit([call("https://pay", on_success=[webhook("https://audit/paid", body={"order": 7})])])

    await sim.run_until_idle()

    told = sim.sent_to("https://audit")
    assert {sent.key for sent in told} == {f"{told[0].task_id}:success:0"}
    assert told[-1].body == {"order": 7}
    assert told[-1].headers["idempotency-key"] == told[-1].key
    assert [sent.answer for sent in told] == ["connection refused by audit:443"] * 4 + ["HTTP 200"]
    assert sim.timeline("charge")[-1].what == "success webhook: HTTP 200"
    # 5 s, 30 s, 2 min and 10 min by default, each give or take a tenth.
    assert sim.timeline("charge")[-1].seconds == pytest.approx(755, rel=0.1)


async def test_an_answer_that_comes_too_late_is_none(sim: Simulation) -> None:
    sim.http("https://pay").answers(200).slow("9s").then(200).slow("11s").then(200).slow("3s")
    task = call("https://pay", retry=STEADY)
    await sim.submit([{**task, "id": "in_time"}])
    await sim.run_until_idle()
    await sim.submit([{**task, "id": "too_late"}])
    await sim.run_until_idle()

    assert sim.timeline("in_time")[-1] == (9, "Success")
    first, second = sim.attempts("too_late")
    assert (first.code, second.outcome) == ("read_timeout", "success")
    # The default timeout of a call, the wait, and the answer.
    assert sim.timeline("too_late")[-1] == (10 + 10 + 3, "Success")


async def test_slow_calls_run_side_by_side(sim: Simulation) -> None:
    sim.http("https://pay").answers(200).slow("5s")
    await sim.submit([call("https://pay", f"task-{number}") for number in range(20)])

    await sim.run_until_idle()

    assert {sim.timeline(f"task-{number}")[-1] for number in range(20)} == {(5, "Success")}


@pytest.mark.parametrize(("status", "shown"), [(200, "Success"), (404, "Failure")])
async def test_a_failing_batch_is_run_again(sim: Simulation, status: int, shown: str) -> None:
    sim.http("https://etl").answers(500).then(status)
    retry: dict[str, Any] = {"max_retries": 1, "initial_delay_secs": 60, "jitter": "none"}
    await sim.batch([call("https://etl", "load")], retry=retry)

    await sim.run_until_idle()

    assert [sent.at for sent in sim.sent] == [sim.sent[0].at, sim.now]
    assert (sim.now - sim.sent[0].at).total_seconds() == 60
    # A repetition is a batch of its own.
    assert [sim.status(sent.task_id) for sent in sim.sent] == ["Failure", shown]
