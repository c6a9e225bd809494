"""Each attempt leaves a row that says how it went and what followed; there are only so many of them."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.config import Engine
from perdure.domain.model import ErrorClass, Failure, FailureTrigger
from perdure.store.verbs.fail import Failed, fail
from tests.retries.conftest import TellStory
from tests.retries.story import AT_ONCE, Story
from tests.support.receiver import Receiver

NOTHING_FOLLOWED = {"delay_secs": None, "delay_source": None, "charged": None, "next_retry_at": None}


async def shown_attempts(story: Story, id: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await story.client.get(f"/task/{id}/attempts")).json
    return rows


async def test_every_column_of_every_outcome(story: Story, receiver: Receiver) -> None:
    # Given attempts that end in every way: refused, silent, reported, canceled, well
    receiver.answer("/a", status=429, headers={"Retry-After": "15"}, json={"code": "QUOTA", "message": "slow down"})
    id = await story.run_one(story.job("a", timeout=30))
    await story.at(15)
    await story.at(45)
    await story.at(55)
    await story.at(58)
    await story.fail(id, "no disk", code="ENOSPC")
    await story.at(78)
    await story.at(80)
    await story.commands.cancel(id)
    await story.at(90)
    await story.commands.retry(id)
    await story.start()
    await story.at(95)
    await story.report(id)

    def moment(second: int) -> str:
        return f"2030-01-01T00:{second // 60:02}:{second % 60:02}Z"

    failure = {"instance": "instance-1", "outcome": "failure", "http_status": None, "code": None}
    assert await shown_attempts(story, id) == [
        {
            **failure,
            "attempt": 0,
            "started_at": moment(0),
            "ended_at": moment(0),
            "trigger": "webhook_failure",
            "error_class": "rate_limited",
            "http_status": 429,
            "code": "QUOTA",
            "message": "on_start webhook failed: HTTP 429: slow down",
            "delay_secs": 15,
            "delay_source": "server",
            "charged": False,
            "next_retry_at": moment(15),
        },
        {
            **failure,
            "attempt": 1,
            "started_at": moment(15),
            "ended_at": moment(45),
            "trigger": "timeout",
            "error_class": "retryable",
            "message": "Timeout",
            "delay_secs": 10,
            "delay_source": "exponential",
            "charged": True,
            "next_retry_at": moment(55),
        },
        {
            **failure,
            "attempt": 2,
            "started_at": moment(55),
            "ended_at": moment(58),
            "trigger": "explicit",
            "error_class": "retryable",
            "code": "ENOSPC",
            "message": "no disk",
            "delay_secs": 20,
            "delay_source": "exponential",
            "charged": True,
            "next_retry_at": moment(78),
        },
        {
            **failure,
            "attempt": 3,
            "started_at": moment(78),
            "ended_at": moment(80),
            "outcome": "canceled",
            "trigger": None,
            "error_class": None,
            "message": "Canceled by request",
            "delay_secs": None,
            "delay_source": "manual",
            "charged": False,
            "next_retry_at": moment(90),
        },
        {
            **failure,
            **NOTHING_FOLLOWED,
            "attempt": 4,
            "started_at": moment(90),
            "ended_at": moment(95),
            "outcome": "success",
            "trigger": None,
            "error_class": None,
            "message": None,
        },
    ]
    errors = (await story.client.get(f"/task/{id}")).json["error_history"]
    assert [(entry["attempt"], entry["timestamp"], entry["error"]) for entry in errors] == [
        (0, moment(0), "on_start webhook failed: HTTP 429: slow down"),
        (1, moment(45), "Timeout"),
        (2, moment(58), "no disk"),
    ]
    assert [(entry["error_class"], entry["http_status"], entry["code"]) for entry in errors] == [
        ("rate_limited", 429, "QUOTA"),
        ("retryable", None, None),
        ("retryable", None, "ENOSPC"),
    ]


async def test_the_last_failure_is_followed_by_nothing(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail_for_good(id)

    (row,) = await shown_attempts(story, id)

    assert {name: row[name] for name in NOTHING_FOLLOWED} == NOTHING_FOLLOWED
    assert (row["outcome"], row["error_class"]) == ("failure", "final")


async def test_what_never_ran_has_no_attempt(story: Story) -> None:
    ids = await story.run(story.job("a"), story.job("child", "a"), story.job("pending", delay=60))
    await story.fail_for_good(ids["a"])
    await story.commands.cancel(ids["pending"])

    assert await shown_attempts(story, ids["child"]) == []
    assert await shown_attempts(story, ids["pending"]) == []
    # A task that failed with its parent has a reason, but made no error of its own.
    child = (await story.client.get(f"/task/{ids['child']}")).json
    assert (child["failure_reason"], child["error_history"]) == ("Parent task a failed", [])


async def test_a_cancel_between_two_attempts_ends_none(story: Story) -> None:
    id = await story.run_one(story.job("a"))
    await story.fail(id)
    await story.commands.cancel(id)

    assert [(row["attempt"], row["outcome"]) for row in await shown_attempts(story, id)] == [(0, "failure")]


@pytest.mark.parametrize(
    ("most", "kept"),
    [(2, [0, 10]), (4, [0, 8, 9, 10]), (10, [0, 2, 3, 4, 5, 6, 7, 8, 9, 10]), (11, list(range(11)))],
)
async def test_history_is_bounded_and_keeps_the_first_and_the_latest(
    tell: TellStory, most: int, kept: list[int]
) -> None:
    story = await tell(engine=Engine(history_max_attempts=most))
    id = await story.run_one(story.job("a", retry=AT_ONCE))

    for attempt in range(11):
        await story.fail(id, f"error {attempt}")
        assert len(await story.attempts(id)) <= most
        await story.work()

    rows = await shown_attempts(story, id)
    assert [row["attempt"] for row in rows] == kept
    assert [row["message"] for row in rows] == [f"error {attempt}" for attempt in kept]
    errors = (await story.client.get(f"/task/{id}")).json["error_history"]
    assert [entry["attempt"] for entry in errors] == kept


async def test_the_history_of_one_task_does_not_push_out_that_of_another(tell: TellStory) -> None:
    story = await tell(engine=Engine(history_max_attempts=2))
    ids = await story.run(story.job("often", retry=AT_ONCE), story.job("once", retry=AT_ONCE))
    await story.fail(ids["once"])
    await story.work()
    await story.fail(ids["once"])
    for _ in range(5):
        await story.fail(ids["often"])
        await story.work()

    assert [row["attempt"] for row in await story.attempts(ids["once"])] == [0, 1]
    assert [row["attempt"] for row in await story.attempts(ids["often"])] == [0, 4]


@pytest.mark.parametrize("character", ["x", "ü", "€", "🙂"])
async def test_messages_are_cut_at_a_character(story: Story, receiver: Receiver, character: str) -> None:
    size = len(character.encode())
    long = character * 5000
    receiver.answer("/refused", status=500, json={"message": long})
    ids = await story.run(story.job("refused"), story.job("reported"))
    await story.fail(ids["reported"], long)

    (reported,) = await story.attempts(ids["reported"])
    assert reported["message"] == character * (4096 // size)
    assert (await story.task(ids["reported"])).failure_reason == reported["message"]
    (refused,) = await story.attempts(ids["refused"])
    assert 4096 - size < len(refused["message"].encode()) <= 4096
    assert refused["message"].endswith(character)


async def test_lost_workers_are_told_apart_and_free_only_so_often(story: Story) -> None:
    """The engine knows a lost worker when its lease ran out: what follows is the same decision as ever."""
    id = await story.run_one(story.job("a", retry={"strategy": "immediate", "max_retries": 1}))
    lost = Failure(FailureTrigger.WORKER_LOST, ErrorClass.RETRYABLE, "the worker is gone")

    for _ in range(6):
        await story.instance.store.write(
            lambda session: fail(session, [Failed(id, None, lost)], story.commands._decide)
        )
        await story.work()

    rows = await story.attempts(id)
    assert [(row["outcome"], row["trigger"]) for row in rows] == [("lost", "worker_lost")] * 6
    assert [row["charged"] for row in rows] == [False] * 5 + [True]
    assert (await story.progress(id))[1:3] == (6, 1)
    errors = (await story.client.get(f"/task/{id}")).json["error_history"]
    assert [entry["error"] for entry in errors] == ["the worker is gone"] * 6
    assert story.metric("task_retry_total", attempt="6", trigger="worker_lost") == 1


async def test_the_instance_that_ran_an_attempt_is_remembered(tell: TellStory) -> None:
    first, second = await tell(), await tell()
    id = await first.run_one(first.job("a"))
    # Reported to another instance than the one that called.
    await second.fail(id)
    await second.at(10)
    await first.report(id)

    assert [row["instance"] for row in await first.attempts(id)] == ["instance-1", "instance-2"]
