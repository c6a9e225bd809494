"""Scripts of receivers: which answer comes when."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.testing import Endpoint, Simulation, VirtualClock
from tests.testing.tasks import STEADY, call, webhook

Script = Callable[[Endpoint], Endpoint]


def play(script: Script, *moments: float) -> list[int | str | None]:
    """The statuses, or reasons why there is none, of calls so many seconds after the script was written."""
    clock = VirtualClock()
    endpoint = script(Endpoint("https://pay", clock))
    began = clock.now()
    replies = []
    for moment in moments:
        clock.advance(moment - (clock.now() - began).total_seconds())
        replies.append(endpoint.reply_to_call())
    return [reply.status or reply.error_code for reply in replies]


@pytest.mark.parametrize(
    ("script", "moments", "answers"),
    [
        pytest.param(lambda pay: pay, [0, 1], [200, 200], id="nothing scripted"),
        pytest.param(lambda pay: pay.answers(503), [0, 1, 2], [503, 503, 503], id="the last answer goes on"),
        pytest.param(lambda pay: pay.answers(503).then(200), [0, 1, 2], [503, 200, 200], id="the others come once"),
        pytest.param(lambda pay: pay.answers(503).times(2), [0, 1, 2], [503, 503, 200], id="or as often as is said"),
        pytest.param(
            lambda pay: pay.answers(500).times(2).then(429).then(404),
            [0, 1, 2, 3, 4],
            [500, 500, 429, 404, 404],
            id="one after the other",
        ),
        pytest.param(
            lambda pay: pay.down("40m").then(201),
            [0, 2399, 2400, 2401],
            ["connection_error", "connection_error", 201, 201],
            id="down from now on",
        ),
        pytest.param(lambda pay: pay.down("40m"), [3000], [200], id="down while nobody calls"),
        pytest.param(lambda pay: pay.down(), [0, 1e9], ["connection_error", "connection_error"], id="down for ever"),
        pytest.param(lambda pay: pay.down("1m", code="dns_error"), [0, 60], ["dns_error", 200], id="another reason"),
        pytest.param(
            lambda pay: pay.answers(500).then().down("1m").then(503),
            [100, 130, 189, 190],
            [500, "connection_error", "connection_error", 503],
            id="down once the answer before is used up",
        ),
        pytest.param(
            lambda pay: pay.down("1m").then().down("1m", code="tls_error"),
            [30, 90, 119, 120],
            ["connection_error", "tls_error", "tls_error", 200],
            id="outages follow one another",
        ),
        pytest.param(
            lambda pay: pay.rate_limited("2m").then(201),
            [100, 219, 220],
            [429, 429, 201],
            id="rate limited from the first call on",
        ),
        pytest.param(
            lambda pay: pay.rate_limited("2m").times(1).then(201), [0, 1], [429, 201], id="rate limited only once"
        ),
    ],
)
def test_answers_follow_the_script(script: Script, moments: list[float], answers: list[int | str]) -> None:
    # The call that uses a step up is the last one that sees it.
    assert play(script, *moments) == answers


def test_a_limit_says_how_long_it_still_lasts() -> None:
    clock = VirtualClock()
    endpoint = Endpoint("https://pay", clock).rate_limited("120s")

    assert endpoint.reply_to_call().headers == {"retry-after": "120"}
    clock.advance(20.5)
    assert endpoint.reply_to_call().headers == {"retry-after": "100"}


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda pay: pay.answers(20), "20 is no HTTP status"),
        (lambda pay: pay.down(code="gremlins"), "there is no error code 'gremlins'"),
        (lambda pay: pay.times(0), "times must be at least 1"),
        (lambda pay: pay.down("soon"), "'soon' is no duration"),
    ],
)
def test_scripts_that_make_no_sense_are_refused(write: Script, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        write(Endpoint("https://pay", VirtualClock()))


async def test_the_longest_prefix_counts_and_others_answer_200(sim: Simulation) -> None:
    sim.http("https://shop").answers(500)
    sim.http("https://shop/pay").answers(402)
    await sim.submit([call(f"https://{path}", path) for path in ("shop/pay/7", "shop/ship", "elsewhere")])

    await sim.run_until_idle()

    assert {sent.url: sent.answer for sent in sim.sent} == {
        "https://shop/pay/7": "HTTP 402",
        "https://shop/ship": "HTTP 500",
        "https://elsewhere": "HTTP 200",
    }


async def test_a_new_script_replaces_the_old_one(sim: Simulation) -> None:
    sim.http("https://pay").down()
    await sim.submit([call("https://pay", retry=STEADY)])
    await sim.advance("5s")

    sim.http("https://pay").answers(200)
    await sim.run_until_idle()

    sim.assert_attempts("charge", 2)


async def test_results_and_headers_come_from_the_answer(sim: Simulation) -> None:
    sim.http("https://pay").answers(503, headers={"Retry-After": "77"}).then(200, json={"receipt": 7})
    await sim.submit([call("https://pay", retry=STEADY)])

    await sim.run_until_idle()

    first, second = sim.attempts("charge")
    assert (first.delay_secs, first.delay_source, second.after_secs) == (77, "server", 77)


async def test_calls_are_recorded_as_receivers_see_them(sim: Simulation) -> None:
    action = webhook("https://pay/charges", verb="Put", body={"amount": 5}, headers={"X-Shop": "7"})
    tasks = await sim.submit([{**call("https://pay"), "on_start": action}])
    await sim.run_until_idle()

    (sent,) = sim.sent
    assert (sent.verb, sent.url, sent.body) == ("PUT", "https://pay/charges", {"amount": 5})
    assert (sent.task_id, sent.trigger, sent.attempt) == (tasks["charge"], "start", 0)
    assert sent.key == f"{tasks['charge']}:start:0"
    assert sent.headers["Idempotency-Key"] == sent.key
    assert sent.headers["x-shop"] == "7"
    assert sent.handle.endswith(f"/task/{tasks['charge']}?attempt=0")
    assert sent.at == sim.now
