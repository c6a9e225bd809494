"""Python workers as people start them: several processes, one of which is killed in the middle of its work."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.store.interface import Session
from tests.engine.driven import eventually
from tests.system.process import ServerProcess, command, run

PROGRAM = """
import asyncio
import os

from perdure import Context, Perdure, Retry

app = Perdure()


@app.task(retry=Retry.immediate(5))
async def work(number: int, ctx: Context) -> str:
    with open("runs.txt", "a") as runs:
        runs.write(f"{number} {ctx.attempt} {os.getpid()}\\n")
    await asyncio.sleep(0.05)
    return f"{number} in attempt {ctx.attempt}"


@app.task
def slow(ctx: Context) -> str:
    with open("runs.txt", "a") as runs:
        runs.write("slow\\n")
    while not ctx.canceled and not os.path.exists("go"):
        pass
    return "finished"


@app.task(retry=Retry.immediate(5))
def poison(ctx: Context) -> str:
    if ctx.attempt == 0:
        os._exit(1)
    return "survived"


@app.task(process=True)
def compute() -> None:
    with open("runs.txt", "a") as runs:
        runs.write("compute\\n")
    while True:
        pass
"""
#: A lost worker is to be noticed within the patience of a test.
CONFIGURATION = """
[server]
database_url = "{url}"

[engine]
worker_lease_secs = 3
worker_heartbeat_secs = 0.5
"""
TASKS = 1000


@pytest.fixture
def folder(tmp_path: Path, database_url: str) -> Path:
    """Where the program is, and its configuration."""
    (tmp_path / "shop.py").write_text(PROGRAM)
    (tmp_path / "perdure.toml").write_text(CONFIGURATION.format(url=database_url))
    return tmp_path


@pytest.fixture
def app(database_url: str) -> Iterator[Perdure]:
    with Perdure(database_url) as app:
        yield app


def worker(folder: Path, *arguments: str) -> ServerProcess:
    return ServerProcess(folder, program=[*command(), "worker", "shop:app", *arguments])


def runs(folder: Path) -> list[str]:
    file = folder / "runs.txt"
    return file.read_text().splitlines() if file.exists() else []


async def started(folder: Path, count: int) -> None:
    """Wait until functions were begun so many times."""

    async def enough() -> bool:
        return len(runs(folder)) >= count

    await eventually(enough, timeout=60)


async def query(app: Perdure, sql: str) -> list[Any]:
    async def read(session: Session) -> list[Any]:
        return await session.query(sql, [])

    return await app._desk._read(read)


async def test_a_killed_worker_loses_nothing_and_doubles_nothing(folder: Path, app: Perdure) -> None:
    with app.batch() as batch:
        for number in range(TASKS):
            batch.add_task({"id": str(number), "kind": "work", "payload": {"number": number}, "retry": RETRIED})
    async with worker(folder, "--concurrency", "20") as killed, worker(folder, "--concurrency", "20") as other:
        await started(folder, TASKS // 5)
        await killed.kill()
        await batch.wait(timeout=120)
        assert await other.stop() == 0

    tasks = await query(app, "SELECT id, key, status, attempt, result FROM task")
    assert Counter(row["status"] for row in tasks) == {"success": TASKS}
    attempts = defaultdict(list)
    for row in await query(app, "SELECT task_id, attempt, outcome, instance FROM task_attempt ORDER BY attempt"):
        attempts[row["task_id"]].append(row)
    for row in tasks:
        history = attempts[row["id"]]
        assert [one["attempt"] for one in history] == list(range(row["attempt"] + 1))
        assert [one["outcome"] for one in history] == [*["lost"] * row["attempt"], "success"]
        assert row["result"] == f'"{row["key"]} in attempt {row["attempt"]}"'
    lost = [one for history in attempts.values() for one in history if one["outcome"] == "lost"]
    # What the killed one held, and nothing else, was begun again.
    assert 1 <= len(lost) <= 20
    assert len({one["instance"] for one in lost}) == 1
    begun = Counter(tuple(line.split()[:2]) for line in runs(folder))
    assert max(begun.values()) == 1


RETRIED = {"strategy": "immediate", "max_retries": 5}


async def test_two_processes_share_the_work(folder: Path, app: Perdure) -> None:
    with app.batch() as batch:
        for number in range(200):
            batch.add_task({"id": str(number), "kind": "work", "payload": {"number": number}})
    async with worker(folder, "--processes", "2", "--concurrency", "5") as both:
        await both.says("working", times=2)
        await batch.wait(timeout=60)
        assert await both.stop() == 0

    begun = [line.split() for line in runs(folder)]
    assert sorted(int(number) for number, _, _ in begun) == list(range(200))
    assert len({process for _, _, process in begun}) == 2


async def test_a_task_that_ends_its_process_takes_no_other_one_down(folder: Path, app: Perdure) -> None:
    with app.batch() as batch:
        node = batch.add_task({"kind": "poison", "retry": RETRIED})
    async with worker(folder, "--processes", "2") as both:
        await both.says("a process died; starting another")
        await both.says("working", times=3)

        assert await node.handle.result(timeout=60) == "survived"
        assert await both.stop() == 0
    assert both.output.count("a process died") == 1


async def test_processes_of_functions_end_with_a_worker_that_is_killed(folder: Path, app: Perdure) -> None:
    with app.batch() as batch:
        batch.add_task({"kind": "compute"})
    async with worker(folder) as killed:
        await started(folder, 1)

        killed.send(signal.SIGKILL)

        # Its output is that of the busy process, too: it ends with the last of them.
        await killed.ended()


async def test_workers_drain_when_whoever_looks_after_them_is_killed(folder: Path, app: Perdure) -> None:
    with app.batch() as batch:
        node = batch.add_task({"kind": "slow"})
    async with worker(folder, "--processes", "2") as both:
        await both.says("working", times=2)
        await started(folder, 1)

        both.send(signal.SIGKILL)

        await both.says("finishing what is under way", times=2)
        (folder / "go").touch()
        await both.says("every result is on disk", times=2)
        await both.ended()

    assert await node.handle.result() == "finished"


async def test_a_worker_that_is_stopped_finishes_what_it_runs(folder: Path, app: Perdure) -> None:
    with app.batch() as batch:
        node = batch.add_task({"kind": "slow"})
    async with worker(folder) as stopped:
        await started(folder, 1)
        stopping = asyncio.create_task(stopped.stop())
        await stopped.says("finishing what is under way")
        (folder / "go").touch()
        assert await stopping == 0

    assert await node.handle.result() == "finished"


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("nothing:app", "There is no module 'nothing'"),
        ("shop:nothing", "there is app"),
        ("shop", "module:name"),
    ],
)
async def test_a_program_that_is_not_there_is_named(folder: Path, reference: str, words: str) -> None:
    ended = await run(folder, "worker", reference)
    assert ended.code == 2
    assert words in ended.error
