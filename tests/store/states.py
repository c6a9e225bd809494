"""One task in each state, brought there as an engine brings it there."""

from __future__ import annotations

from perdure.domain.model import ErrorClass
from perdure.domain.states import Status
from tests.store.drafts import a_task, broken, fixed_retry
from tests.store.scenario import Scenario


async def one_in_each_state(scenario: Scenario) -> None:
    """Submit tasks whose keys are the states that they are in, with the parents `runs` and `ran` of two of them."""
    running = ["running", "retry_pending", "success", "failure", "canceled", "runs", "ran"]
    await scenario.submit(
        *[a_task(key, retry=fixed_retry()) for key in running],
        a_task("waiting", after="runs", retry=fixed_retry()),
        a_task("skipped", after={"ran": "on_failure"}, retry=fixed_retry()),
    )
    await scenario.run(*running)
    await scenario.succeed("success", "ran")
    await scenario.fail("retry_pending")
    await scenario.fail("failure", failure=broken(error_class=ErrorClass.FINAL))
    await scenario.cancel("canceled")
    await scenario.submit(a_task("claimed", retry=fixed_retry()))
    await scenario.claim()
    await scenario.submit(a_task("pending", retry=fixed_retry()))
    assert await scenario.statuses(*STATES) == {status.value: status for status in Status}


STATES = tuple(status.value for status in Status)
