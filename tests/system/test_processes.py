"""Several processes on one host: they share a port, and are looked after."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import aiohttp
import asyncpg
import pytest

from perdure.cli.processes import pause_secs
from tests.system import orphaned, supervised
from tests.system.agent import Agent
from tests.system.client import Client
from tests.system.process import ServerProcess, run


async def test_two_processes_serve_together_and_stop_cleanly(
    tmp_path: Path, empty_postgres_url: str, session: aiohttp.ClientSession, agent: Agent
) -> None:
    agent.finish_by_itself()
    arguments = ("--workers", "2", "--database-url", empty_postgres_url, "--instance-id", "blue")
    async with ServerProcess(tmp_path, *arguments) as server:
        await server.says(r"instance +blue-\w+", times=2)
        assert len(set(re.findall(r"listening +(\S+)", server.output))) == 1
        assert len(set(re.findall(r"instance +(\S+)", server.output))) == 2
        client = Client(session, await server.address())
        batch = await client.submit([agent.task(f"t{number}") for number in range(100)])
        await agent.told("/ended", *batch.ids)
        assert await client.counts(batch) == {"success": 100}
        assert len(agent.calls) == 100

        assert await server.stop() == 0

    assert server.output.count("everything acknowledged is on disk") == 2
    assert "Traceback" not in server.output


async def test_when_they_cannot_start_the_whole_ends(tmp_path: Path, empty_postgres_url: str) -> None:
    await run(tmp_path, "migrate", "--database-url", empty_postgres_url)
    connection = await asyncpg.connect(empty_postgres_url)
    await connection.execute("INSERT INTO schema_version (version, name) VALUES (9999, 'future')")
    await connection.close()

    refused = await run(tmp_path, "serve", "--port", "0", "--workers", "2", "--database-url", empty_postgres_url)

    assert refused.code == 1
    assert "schema version 9999" in refused.error


def supervised_processes(folder: Path, behaviour: str) -> ServerProcess:
    return ServerProcess(folder, program=(sys.executable, supervised.__file__, behaviour))


async def test_a_process_that_dies_is_replaced(tmp_path: Path) -> None:
    async with supervised_processes(tmp_path, "wait") as both:
        await both.says(r"process \d+", times=2)
        dying = int(re.findall(r"process (\d+)", both.output)[0])

        os.kill(dying, signal.SIGKILL)

        await both.says("a process died; starting another.*exit_code=-9 pause_secs=0")
        await both.says(r"process \d+", times=3)
        assert await both.stop() == 0
    assert both.output.count("stopped") == 2


async def test_processes_that_die_again_and_again_are_started_ever_more_slowly(tmp_path: Path) -> None:
    async with supervised_processes(tmp_path, "die") as both:
        await both.says("a process died; starting another.*exit_code=1 pause_secs=1", times=2)

        # Nothing runs now, and it need not wait for the next ones either.
        assert await both.stop() == 0
    assert [both.output.count(f"pause_secs={secs}\n") for secs in ("0.0", "0.5", "1.0")] == [2, 2, 2]


async def test_processes_stop_when_whoever_looks_after_them_is_killed(
    tmp_path: Path, empty_postgres_url: str, session: aiohttp.ClientSession
) -> None:
    arguments = ("--workers", "2", "--database-url", empty_postgres_url)
    async with ServerProcess(tmp_path, *arguments) as server:
        await server.says("instance +", times=2)
        url = await server.address()

        server.send(signal.SIGKILL)

        await server.says("the process that started this one is gone", times=2)
        await server.says("everything acknowledged is on disk", times=2)
        # Their output ends with the last of them.
        await server.ended()
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(f"{url}/health")


async def test_the_end_of_a_parent_is_noticed_while_a_copy_of_it_lives(tmp_path: Path) -> None:
    async with ServerProcess(tmp_path, program=(sys.executable, orphaned.__file__)) as parent:
        await parent.says("computing")

        parent.send(signal.SIGKILL)

        await parent.says("orphaned")


def test_the_pause_grows_up_to_half_a_minute() -> None:
    assert [pause_secs(deaths) for deaths in range(1, 10)] == [0, 0.5, 1, 2, 4, 8, 16, 30, 30]
    assert pause_secs(10**6) == 30


async def test_one_that_cannot_start_later_on_does_not_stop_the_others(tmp_path: Path) -> None:
    async with supervised_processes(tmp_path, "refuse later") as both:
        await both.says(r"process \d+", times=2)

        os.kill(int(re.findall(r"process (\d+)", both.output)[0]), signal.SIGKILL)

        await both.says("a process died; starting another.*exit_code=78 pause_secs=0.5")
        assert "stopped" not in both.output
        assert await both.stop() == 0
    assert both.output.count("stopped") == 1
