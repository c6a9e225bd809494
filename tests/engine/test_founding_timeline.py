"""The timeline that the first plan for retries draws: two timeouts, then a success."""

from __future__ import annotations

from datetime import timedelta

from perdure.testing import VirtualClock
from tests.engine.definitions import task, webhook
from tests.engine.driven import Driven
from tests.support.receiver import Receiver


async def test_two_attempts_time_out_and_the_third_succeeds(
    driven: Driven, receiver: Receiver, clock: VirtualClock
) -> None:
    began = clock.now()
    ids = await driven.submit(
        task(
            "import",
            name="Import Data",
            kind="etl",
            timeout=30,
            retry={
                "max_retries": 3,
                "initial_delay_secs": 10,
                "backoff_multiplier": 2.0,
                "max_delay_secs": 120,
                "jitter": "none",
            },
            on_start=webhook(receiver.url("/import")),
        ),
        task("next", "import"),
    )
    import_id = ids["import"]

    async def at(second: float) -> tuple[str, int, float | None]:
        """Let everything happen that happens until then; the state, the attempt and when the retry is due."""
        # Each moment at which something can happen is lived through, as a running engine would.
        while clock.now() < began + timedelta(seconds=second):
            clock.advance(0.5)
            await driven.work()
        await driven.work()
        shown = await driven.task(import_id)
        due = None if shown.next_retry_at is None else (shown.next_retry_at - began).total_seconds()
        assert await driven.status(ids["next"]) == "Waiting"
        return shown.status.label, shown.attempt, due

    assert await at(0) == ("Running", 0, None)
    assert await at(29.5) == ("Running", 0, None)
    assert await at(30) == ("RetryPending", 1, 40)
    assert await at(39.5) == ("RetryPending", 1, 40)
    assert await at(40) == ("Running", 1, None)
    assert await at(69.5) == ("Running", 1, None)
    assert await at(70) == ("RetryPending", 2, 90)
    assert await at(89.5) == ("RetryPending", 2, 90)
    assert await at(90) == ("Running", 2, None)
    assert await at(100) == ("Running", 2, None)

    await driven.report(import_id, attempt=2)

    done = await driven.task(import_id)
    assert (done.status.label, done.attempt, done.retry_count, done.next_retry_at) == ("Success", 2, 2, None)
    assert await driven.status(ids["next"]) == "Pending"
    keys = [request.headers["Idempotency-Key"] for request in receiver.requests]
    assert keys == [f"{import_id}:start:{attempt}" for attempt in range(3)]
    history = [(row["outcome"], row["trigger"], row["delay_secs"]) for row in await driven.attempts(import_id)]
    assert history == [("failure", "timeout", 10), ("failure", "timeout", 20), ("success", None, None)]
