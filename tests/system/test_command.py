"""The command line: what it prints, what it refuses, and with which exit code it ends."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import aiohttp
import asyncpg
import pytest

from perdure import __version__
from tests.engine.definitions import task
from tests.system.agent import Agent
from tests.system.client import Client
from tests.system.process import ServerProcess, run


async def test_serve_says_where_it_listens_and_what_it_works_with(
    tmp_path: Path, database_url: str, session: aiohttp.ClientSession
) -> None:
    async with ServerProcess(tmp_path, "--database-url", database_url, "--instance-id", "blue") as server:
        url = await server.address()
        await server.says("runs tasks +all kinds, all namespaces")

        assert re.search(rf"callbacks +{re.escape(url)}\n", server.output)
        assert re.search(rf"database +{re.escape(database_url)}\n", server.output)
        assert re.search(r"instance +blue\n", server.output)
        client = Client(session, url)
        assert await client.expect(200, "GET", "/health") == {"status": "ok", "database": "healthy"}
        assert await client.expect(200, "GET", "/ready") == {"status": "ready"}
        assert await server.stop() == 0
    assert "Traceback" not in server.output


async def test_a_password_is_not_shown(tmp_path: Path, postgres_url: str) -> None:
    secret = postgres_url.replace("postgres@", "postgres:hunter2@")

    async with ServerProcess(tmp_path, "--database-url", secret) as server:
        await server.address()
        await server.says("instance")
        await server.stop()

    assert f"database    {secret.replace('hunter2', '***')}" in server.output
    assert "hunter2" not in server.output


async def test_a_started_server_runs_tasks_from_end_to_end(
    tmp_path: Path, database_url: str, session: aiohttp.ClientSession, agent: Agent
) -> None:
    agent.finish_by_itself()
    async with ServerProcess(tmp_path, "--database-url", database_url) as server:
        client = Client(session, await server.address())
        batch = await client.submit([agent.task("a"), agent.task("b", "a")])
        await agent.told("/ended", "a", "b")

        assert await client.counts(batch) == {"success": 2}
        assert await server.stop() == 0


async def test_what_was_acknowledged_survives_a_restart(
    tmp_path: Path, database_url: str, session: aiohttp.ClientSession
) -> None:
    async with ServerProcess(tmp_path, "--database-url", database_url) as server:
        client = Client(session, await server.address())
        batch = await client.submit([task("a"), task("b", "a")])
        for _ in range(50):
            await client.expect(202, "PUT", f"/task/{batch.ids['a']}", {"new_success": 1})
        assert await server.stop() == 0

    async with ServerProcess(tmp_path, "--database-url", database_url) as server:
        client = Client(session, await server.address())

        assert await client.statuses(batch) == {"a": "Pending", "b": "Waiting"}
        assert (await client.task(batch.ids["a"]))["success"] == 50
        await server.stop()


async def test_only_the_named_kinds_are_claimed(tmp_path: Path, session: aiohttp.ClientSession, agent: Agent) -> None:
    agent.finish_by_itself()
    async with ServerProcess(tmp_path, "--only", "kinds=mail,etl") as server:
        client = Client(session, await server.address())
        batch = await client.submit([agent.task("a", kind="other"), agent.task("b", kind="etl")])
        await agent.told("/ended", "b")

        assert await client.statuses(batch) == {"a": "Pending", "b": "Success"}
        assert "kinds mail, etl" in server.output
        await server.stop()


async def test_without_the_engine_nothing_runs(tmp_path: Path, session: aiohttp.ClientSession, agent: Agent) -> None:
    async with ServerProcess(tmp_path, "--no-engine") as server:
        client = Client(session, await server.address())
        batch = await client.submit([agent.task("a")])

        await client.expect(202, "PUT", f"/task/{batch.ids['a']}", {"new_success": 1})
        assert await server.stop() == 0

    assert agent.calls == []


async def test_without_the_api_nobody_listens_and_tasks_run(
    tmp_path: Path, session: aiohttp.ClientSession, agent: Agent
) -> None:
    async with ServerProcess(tmp_path, "--no-engine") as front:
        client = Client(session, await front.address())
        agent.finish_by_itself()
        async with ServerProcess(tmp_path, "--no-api", "--host-url", client.url) as back:
            await back.says("runs tasks")
            await client.submit([agent.task("a")])
            await agent.told("/ended", "a")

            assert "listening" not in back.output
            assert await back.stop() == 0


async def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        refused = await run(tmp_path, "serve", "--port", str(port))

    assert refused.code == 2
    assert f"Cannot listen on 127.0.0.1:{port}: Address already in use" in refused.error
    assert "--port" in refused.error


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
async def test_it_does_not_listen_beyond_this_machine(tmp_path: Path, host: str) -> None:
    refused = await run(tmp_path, "serve", "--host", host, "--port", "0")

    assert refused.code == 2
    assert f"refuses to listen on {host}" in refused.error


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    await run(tmp_path, "migrate")
    with closing(sqlite3.connect(tmp_path / "perdure.db")) as database:
        database.execute("INSERT INTO schema_version (version, name) VALUES (9999, 'future')")
        database.commit()

    for arguments in (("serve", "--port", "0"), ("migrate",)):
        refused = await run(tmp_path, *arguments)

        assert refused.code != 0
        assert "schema version 9999" in refused.error
        assert "install that version" in refused.error
        assert "Traceback" not in refused.error


async def test_a_newer_schema_is_refused_on_postgres_too(tmp_path: Path, postgres_url: str) -> None:
    variables = {"DATABASE_URL": postgres_url}
    assert (await run(tmp_path, "migrate", variables=variables)).code == 0
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("INSERT INTO schema_version (version, name) VALUES (9999, 'future')")
    await connection.close()

    refused = await run(tmp_path, "serve", "--port", "0", variables=variables)

    assert refused.code == 1
    assert "schema version 9999" in refused.error


@pytest.mark.parametrize("arguments", [("serve", "--port", "0"), ("migrate",)])
@pytest.mark.parametrize("trouble", ["nobody there", "no such database", "no such role"])
async def test_a_database_that_cannot_be_reached_is_named(
    tmp_path: Path, postgres_url: str, arguments: tuple[str, ...], trouble: str
) -> None:
    url = postgres_url.replace("postgres@", "postgres:hunter2@")
    if trouble == "nobody there":
        url = re.sub(r":\d+/", ":1/", url)
    elif trouble == "no such database":
        url = re.sub(r"perdure_test_\w+", "nowhere", url)
    else:
        url = url.replace("postgres:", "stranger:")

    refused = await run(tmp_path, *arguments, variables={"DATABASE_URL": url})

    assert refused.code != 0
    assert url.replace("hunter2", "***") in refused.error
    assert "hunter2" not in refused.error
    assert "Traceback" not in refused.error


@pytest.mark.parametrize(
    "arguments", [("serve", "--port", "0"), ("migrate",), ("task", "list"), ("worker", "shop:app")], ids=" ".join
)
async def test_a_file_that_is_no_database_is_named(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "perdure.db").write_text("buy milk")
    (tmp_path / "shop.py").write_text("from perdure import Perdure\napp = Perdure()\n@app.task\ndef f(): ...\n")

    refused = await run(tmp_path, *arguments)

    assert refused.code != 0
    assert "perdure.db is no SQLite database" in refused.error
    assert "Traceback" not in refused.error


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    refused = await run(tmp_path, "serve", "--port", "0", "--database-url", "sqlite:///missing/perdure.db")

    assert refused.code == 1
    assert "missing/perdure.db" in refused.error
    assert "Traceback" not in refused.error


async def test_migrate_can_be_repeated(tmp_path: Path, database_url: str) -> None:
    for _ in range(2):
        migrated = await run(tmp_path, "migrate", variables={"DATABASE_URL": database_url})

        assert (migrated.code, migrated.out, migrated.error) == (0, "The database is up to date.\n", "")


async def test_version(tmp_path: Path) -> None:
    shown = await run(tmp_path, "version")

    assert (shown.code, shown.out) == (0, f"perdure {__version__}\n")


async def test_config_show_says_where_each_setting_came_from(tmp_path: Path) -> None:
    (tmp_path / "perdure.toml").write_text("[retention]\ndays = 7\n")
    variables = {"PORT": "9000", "DATABASE_URL": "postgresql://user:hunter2@db.test/perdure"}

    shown = await run(tmp_path, "config", "show", "--json", variables=variables)

    settings = {entry["name"]: (entry["value"], entry["source"]) for entry in json.loads(shown.out)}
    assert settings["retention.days"] == ("7", "file perdure.toml")
    assert settings["server.port"][0] == "9000"
    assert "PORT" in settings["server.port"][1]
    assert settings["server.workers"] == ("1", "default")
    assert "hunter2" not in shown.out
    table = await run(tmp_path, "config", "show", variables=variables)
    assert table.code == 0
    assert "retention.days" in table.out
    assert "hunter2" not in table.out


async def test_every_problem_of_the_configuration_is_told_at_once(tmp_path: Path) -> None:
    variables = {"PORT": "many", "PERDURE_CLAIM_TIMEOUT": "5", "PERDURE_TYPO": "1"}

    refused = await run(tmp_path, "serve", variables=variables)

    assert refused.code == 2
    for name in ("server.port", "engine.claim_timeout_secs", "PERDURE_TYPO"):
        assert name in refused.error


async def test_several_processes_need_postgres(tmp_path: Path) -> None:
    refused = await run(tmp_path, "serve", "--workers", "2", "--port", "0")

    assert refused.code == 2
    assert "PostgreSQL" in refused.error
