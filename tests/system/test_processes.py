"""Several processes on one host: they share a port, and are looked after."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import aiohttp
import asyncpg

from tests.system import supervised
from tests.system.agent import Agent
from tests.system.client import Client
from tests.system.process import ServerProcess, run

REPOSITORY = Path(__file__).parents[2]


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


async def test_a_process_that_dies_is_replaced() -> None:
    program = (sys.executable, "-m", supervised.__name__)
    async with ServerProcess(REPOSITORY, program=program) as server:
        await server.says(r"process \d+", times=2)
        dying = int(re.findall(r"process (\d+)", server.output)[0])

        os.kill(dying, signal.SIGKILL)

        await server.says("a process died; starting another")
        await server.says(r"process \d+", times=3)
        assert await server.stop() == 0
    assert server.output.count("stopped") == 2
