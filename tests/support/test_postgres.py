"""The PostgreSQL that tests stand on: it starts from any installation, keeps tests apart, and goes away."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.support.postgres import URL_VARIABLE, PostgresServer
from tests.support.postgres_account import PostgresUnavailable
from tests.support.postgres_binaries import Binaries, machine_binaries, package_binaries

INSTALLATIONS = [*list(machine_binaries())[:1], *list(package_binaries())[:1]]
REPOSITORY = Path(__file__).parents[2]

START_AND_WAIT = """
import sys
from tests.support.postgres import PostgresServer
with PostgresServer() as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module", params=INSTALLATIONS, ids=lambda binaries: binaries.origin)
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    binaries: Binaries = request.param
    with PostgresServer(binaries=binaries) as server:
        yield server


async def query(url: str, statement: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_databases_are_apart_from_each_other(server: PostgresServer) -> None:
    first, second = server.create_database(), server.create_database()

    await query(first, "CREATE TABLE task (id int)")

    assert await query(first, "SELECT to_regclass('task')::text") == "task"
    assert await query(second, "SELECT to_regclass('task')::text") is None


async def test_a_database_can_be_copied_from_another(server: PostgresServer) -> None:
    original = server.create_database()
    await query(original, "CREATE TABLE task AS SELECT 7 AS id")

    copy = server.create_database(template=original)

    assert await query(copy, "SELECT id FROM task") == 7


async def test_a_dropped_database_is_gone_even_while_it_is_used(server: PostgresServer) -> None:
    url = server.create_database()
    connection = await asyncpg.connect(url)

    server.drop_database(url)

    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(url)
    connection.terminate()


async def test_tests_give_up_durability_and_nothing_else(server: PostgresServer) -> None:
    assert await query(server.url, "SHOW fsync") == "off"
    assert await query(server.url, "SHOW synchronous_commit") == "on"
    assert await query(server.url, "SHOW max_connections") == "300"


async def test_a_durable_server_syncs_to_disk() -> None:
    with PostgresServer(durable=True, binaries=INSTALLATIONS[-1]) as server:
        assert await query(server.url, "SHOW fsync") == "on"
        assert await query(server.url, "SHOW full_page_writes") == "on"


async def test_a_stopped_server_leaves_nothing_behind() -> None:
    server = PostgresServer(binaries=INSTALLATIONS[-1])
    server.start()
    url = server.url
    data = Path(str(await query(url, "SHOW data_directory")))

    server.stop()

    assert not data.parent.exists()
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncpg.connect(url)


async def test_a_server_does_not_outlive_a_killed_process() -> None:
    owner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", START_AND_WAIT),
        cwd=REPOSITORY,
        env={name: value for name, value in os.environ.items() if name != URL_VARIABLE},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert owner.stdout is not None
    url = (await owner.stdout.readline()).decode().strip()
    connection = await asyncpg.connect(url)
    server_stopped = asyncio.Event()
    connection.add_termination_listener(lambda _: server_stopped.set())

    owner.send_signal(signal.SIGKILL)

    async with asyncio.timeout(20):
        await server_stopped.wait()
    await owner.communicate()


async def test_a_running_server_is_used_and_left_clean(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL_VARIABLE, server.url)

    with PostgresServer() as adopted:
        assert adopted.url == server.url
        url = adopted.create_database()

    assert await query(server.url, "SELECT 1") == 1
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(url)


def test_a_server_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int) -> None:
    monkeypatch.setenv(URL_VARIABLE, f"postgresql://postgres@127.0.0.1:{unused_tcp_port}/postgres")

    with pytest.raises(PostgresUnavailable, match=f"{URL_VARIABLE} does not answer"):
        PostgresServer().start()


def test_a_server_that_is_not_running_says_so() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        PostgresServer().create_database()
