"""Reports about a live task: progress, metadata, and the end of its attempt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.domain.errors import NotRunning, StaleAttempt
from perdure.domain.states import LIVE, Status
from perdure.store.verbs import change
from perdure.store.verbs.report import Edit, Report, apply_reports
from tests.store.drafts import a_task, at_most, broken, fixed_retry
from tests.store.scenario import Scenario
from tests.store.states import STATES, one_in_each_state


async def _metadata(scenario: Scenario, key: str) -> Any:
    text = (await scenario.task(key)).metadata
    return None if text is None else json.loads(text)


@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        # The examples of RFC 7396, as far as they start from an object.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        (None, {"a": 1}, {"a": 1}),
    ],
)
async def test_metadata_is_merged(scenario: Scenario, original: Any, patch: dict[str, Any], result: Any) -> None:
    await scenario.submit(a_task("task", metadata=original))

    await scenario.edit("task", metadata=patch)

    assert await _metadata(scenario, "task") == result


async def test_merges_in_one_transaction_build_on_each_other(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", metadata={"a": 1}), a_task("other"))
    id = scenario.ids["task"]

    await scenario.report(
        Report(id, None, Edit({"b": 2}, new_success=1)),
        Report(scenario.ids["other"], None, Edit({"x": 1})),
        Report(id, None, Edit({"a": None}, new_success=1)),
    )

    assert await _metadata(scenario, "task") == {"b": 2}
    assert (await scenario.task("task")).success == 2


async def test_changed_metadata_changes_the_lane_only_if_a_rule_looks_at_it(scenario: Scenario) -> None:
    await scenario.submit(
        a_task("ruled", rules=[at_most(1, "job", "customer")], metadata={"customer": 1, "note": ""}), a_task("free")
    )
    lanes = {key: await scenario.column(key, "lane") for key in ("ruled", "free")}

    await scenario.edit("ruled", metadata={"note": "other"})
    await scenario.edit("free", metadata={"customer": 2})
    assert lanes == {key: await scenario.column(key, "lane") for key in ("ruled", "free")}

    await scenario.edit("ruled", metadata={"customer": 2})
    assert await scenario.column("ruled", "lane") != lanes["ruled"]


async def test_every_live_task_can_be_edited(scenario: Scenario) -> None:
    await one_in_each_state(scenario)

    for key in STATES:
        if Status(key) in LIVE:
            await scenario.edit(key, priority=5, expected_count=7, new_success=1, new_failures=2)
            task = await scenario.task(key)
            assert (task.status, task.priority, task.expected_count) == (Status(key), 5, 7)
            assert (task.success, task.failures) == (1, 2)
        else:
            with pytest.raises(NotRunning):
                await scenario.edit(key, priority=5)


async def test_an_edit_keeps_what_it_does_not_name(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", metadata={"a": 1}, priority=3, expected_count=4))

    await scenario.edit("task", new_success=1)

    task = await scenario.task("task")
    assert (task.priority, task.expected_count, json.loads(task.metadata or "")) == (3, 4, {"a": 1})


async def test_an_edit_and_an_end_come_together(scenario: Scenario) -> None:
    await scenario.submit(a_task("good"), a_task("bad", retry=fixed_retry()))
    await scenario.run("good", "bad")

    await scenario.report(
        Report(scenario.ids["good"], 0, Edit({"rows": 3}, new_success=3), succeeded=True, result='{"ok":true}'),
        Report(scenario.ids["bad"], 0, Edit({"rows": 1}, new_failures=1), failure=broken("half done")),
    )

    good, bad = await scenario.task("good"), await scenario.task("bad")
    assert (good.status, good.success, json.loads(good.result or "")) == (Status.SUCCESS, 3, {"ok": True})
    assert (bad.status, bad.failures, bad.failure_reason) == (Status.RETRY_PENDING, 1, "half done")
    assert await _metadata(scenario, "bad") == {"rows": 1}


async def test_after_an_end_the_next_report_in_the_same_transaction_is_told(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", retry=fixed_retry()))
    await scenario.run("task")
    id = scenario.ids["task"]
    reports = [Report(id, 0, failure=broken("first")), Report(id, 0, succeeded=True), Report(id, None, succeeded=True)]

    first, second, third = await scenario.store.write(lambda session: apply_reports(session, reports, scenario.decide))

    assert not isinstance(first, Exception)
    assert isinstance(second, StaleAttempt)
    assert isinstance(third, NotRunning)
    assert third.status_label == "RetryPending"
    assert await scenario.status("task") is Status.RETRY_PENDING


@pytest.mark.parametrize("status", list(Status), ids=str)
async def test_progress_is_counted_in_any_state(scenario: Scenario, status: Status) -> None:
    await one_in_each_state(scenario)
    scenario.clock.advance(5)

    await scenario.count(status, success=3, failures=2)
    await scenario.count(status, success=1)

    task = await scenario.task(status)
    assert (task.success, task.failures, task.status) == (4, 2, status)
    assert task.last_updated == scenario.clock.now()


async def test_counters_never_go_below_zero(scenario: Scenario) -> None:
    await scenario.submit(a_task("task"))
    await scenario.count("task", success=1)

    with pytest.raises(Exception, match=r"(?i)check"):
        await scenario.count("task", success=-2)

    assert (await scenario.task("task")).success == 1


async def test_counting_for_many_tasks_takes_one_statement(scenario: Scenario) -> None:
    await scenario.submit(*[a_task(str(number)) for number in range(100)])
    totals = sorted((id, 1, 2) for id in scenario.ids.values())
    unknown = ("01890a5d-ac96-774b-bcce-b302099a8057", 5, 5)
    names: list[str] = []
    scenario.store.on_query(lambda name, _: names.append(name))

    await scenario.store.write(lambda session: change.count(session, [*totals, unknown]))

    assert names.count("count") == 1
    rows = await scenario.query("SELECT sum(success) AS success, sum(failures) AS failures FROM task")
    assert (rows[0]["success"], rows[0]["failures"]) == (100, 200)


async def test_a_report_of_progress_is_a_sign_of_life(scenario: Scenario) -> None:
    await scenario.submit(*[a_task(key, timeout=30) for key in ("silent", "counted", "edited")])
    await scenario.run("silent", "counted", "edited")
    scenario.clock.advance(29)

    await scenario.count("counted", success=1)
    await scenario.edit("edited")
    scenario.clock.advance(1)

    assert await scenario.time_out() == 1
    assert await scenario.statuses() == {"silent": "failure", "counted": "running", "edited": "running"}


async def test_counts_survive_a_retry(scenario: Scenario) -> None:
    await scenario.submit(a_task("task", retry=fixed_retry(delay_secs=0)))
    await scenario.run("task")
    await scenario.count("task", success=4, failures=1)

    await scenario.fail("task")
    await scenario.release_due()

    task = await scenario.task("task")
    assert (task.status, task.success, task.failures) == (Status.PENDING, 4, 1)
