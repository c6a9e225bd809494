"""Functions that compute run in processes of their own: one that dies takes nothing else with it."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from tests.engine.driven import eventually
from tests.worker import computing
from tests.worker.workshop import MakeWorkshop, Workshop


@pytest.fixture
async def shop(make_workshop: MakeWorkshop) -> Workshop:
    return await make_workshop(computing.app)


async def test_arguments_and_results_cross_over(shop: Workshop) -> None:
    ids = [await shop.hand_in(computing.square, number) for number in range(4)]

    await shop.work()

    results = [json.loads((await shop.task(id)).result or "") for id in ids]
    assert [result["square"] for result in results] == [0, 1, 4, 9]
    processes = {result["process"] for result in results}
    assert os.getpid() not in processes
    assert 1 <= len(processes) <= 2


async def test_what_is_raised_there_is_told_here(shop: Workshop) -> None:
    id = await shop.hand_in(computing.refuse, 7)

    await shop.work()

    task = await shop.task(id)
    assert task.status.label == "Failure"
    (attempt,) = await shop.attempts(id)
    assert (attempt["error_class"], attempt["code"]) == ("final", "unwanted")
    assert "not 7" in (task.failure_reason or "")


async def test_a_process_that_dies_is_a_lost_worker_for_its_task_alone(shop: Workshop, tmp_path: Path) -> None:
    id = await shop.hand_in(computing.die_once, str(tmp_path / "marker"))
    neighbours = [await shop.hand_in(computing.square, number) for number in range(3)]

    await shop.work()
    assert await shop.status(id) == "RetryPending"
    assert [await shop.status(one) for one in neighbours] == ["Success"] * 3

    await shop.pass_time("1m")
    await shop.work()

    task = await shop.task(id)
    assert (task.result, task.retry_count) == ('"survived"', 0)
    assert (await shop.attempts(id))[0]["trigger"] == "worker_lost"


async def test_leaving_a_process_is_a_failure_of_the_task(shop: Workshop) -> None:
    id = await shop.hand_in(computing.leave)

    await shop.work()

    assert "SystemExit" in ((await shop.task(id)).failure_reason or "")


async def test_what_runs_for_too_long_is_ended(shop: Workshop, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    id = await shop.hand_in(computing.compute_for_ever, str(marker))
    await shop.begin()

    async def computing_now() -> bool:
        return marker.exists() and marker.read_text() != ""

    await eventually(computing_now, timeout=30)
    await shop.pass_time(11)
    await shop.work()

    assert (await shop.task(id)).failure_reason == "Timeout"
    process = int(marker.read_text())

    async def gone() -> bool:
        return process not in {child.pid for child in multiprocessing.active_children()}

    await eventually(gone)
