"""Failures that are written in one transaction: what becomes of one may reach the other."""

from __future__ import annotations

import pytest

from perdure.domain.errors import NotRunning, PerdureError
from perdure.store.verbs.report import Edit, Report, apply_reports
from tests.retries.story import Story
from tests.store.drafts import broken


async def test_of_two_that_time_out_together_one_retries_and_is_a_dead_end_by_the_end_of_the_other(
    story: Story,
) -> None:
    ids = await story.run(
        story.job("ends", timeout=30, retry=None),
        story.job("retries", timeout=30, on_cancel=[story.hook("/stop")]),
        story.job("child", "ends", "retries"),
    )

    await story.at(30)

    assert await story.statuses(ids) == {"ends": "Failure", "retries": "Canceled", "child": "Failure"}
    assert [(row["attempt"], row["trigger"]) for row in await story.attempts(ids["retries"])] == [(0, "timeout")]
    assert (await story.timeline(ids["retries"]))[-2:] == [
        (30, "running", "retry_pending", 1),
        (30, "retry_pending", "canceled", 1),
    ]
    assert await story.hooks(ids["retries"]) == ["cancel:0"]
    await story.at(3600)
    assert await story.status(ids["retries"]) == "Canceled"


async def test_the_same_with_one_that_is_parked(story: Story) -> None:
    parking = {"strategy": "immediate", "max_retries": 1, "on_exhausted": "pause"}
    ids = await story.run(
        story.job("parks", timeout=30, retry=parking),
        story.job("ends", timeout=60, retry=None),
        story.job("c", "parks", "ends"),
    )
    await story.at(30)

    await story.at(60)

    assert await story.statuses(ids) == {"parks": "Canceled", "ends": "Failure", "c": "Failure"}
    assert [row["attempt"] for row in await story.attempts(ids["parks"])] == [0, 1]


async def test_reports_in_one_transaction_are_answered_with_what_became_of_their_tasks(story: Story) -> None:
    ids = await story.run(story.job("ends", retry=None), story.job("retries"), story.job("child", "ends", "retries"))
    reports = [Report(ids["retries"], 0, failure=broken()), Report(ids["ends"], 0, failure=broken())]

    answers = await story.instance.store.write(lambda session: apply_reports(session, reports, story.commands._decide))

    found = [answer["status"] for answer in answers if not isinstance(answer, PerdureError)]
    assert found == ["canceled", "failure"]


@pytest.mark.parametrize("said", ["success", "failure"])
async def test_a_second_report_hears_what_the_first_of_another_task_did(story: Story, said: str) -> None:
    ids = await story.run(story.job("ends", retry=None), story.job("other"), story.job("child", "ends", "other"))
    last = Report(ids["other"], 0, succeeded=True) if said == "success" else Report(ids["other"], 0, failure=broken())
    reports = [Report(ids["ends"], 0, failure=broken()), Report(ids["other"], 0, Edit(new_success=1)), last]

    *_, refused = await story.instance.store.write(
        lambda session: apply_reports(session, reports, story.commands._decide)
    )

    assert isinstance(refused, NotRunning)
    assert refused.status_label == "Canceled"
    assert await story.statuses(ids) == {"ends": "Failure", "other": "Canceled", "child": "Failure"}
    assert [row["outcome"] for row in await story.attempts(ids["other"])] == ["canceled"]
