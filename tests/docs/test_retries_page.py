"""What docs/retries.md says about classes of failures, drawings and queries is so; its commands run in test_docs.py."""

from __future__ import annotations

import re
import shlex
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perdure.cli.main import app
from perdure.domain.classify import classify
from perdure.domain.policy import Jitter
from perdure.store.interface import StoreOptions
from perdure.store.postgres.store import connect
from perdure.testing import VirtualClock
from tests.docs.markdown import Block, page
from tests.store.databases import PostgresDatabase, SqliteDatabase
from tests.store.drafts import a_task, fixed_retry
from tests.store.scenario import Scenario
from tests.support.postgres_databases import PostgresDatabases

PAGE = page("docs/retries.md")
_ROW = re.compile(r"^\| (?P<outcome>.+?) \| (?P<meaning>.+?) \|$", re.MULTILINE)


def blocks(language: str) -> list[Block]:
    found = [block for block in PAGE.blocks if block.language == language]
    assert found
    return found


PREVIEWS = [block for block in blocks("sh") if block.text.startswith("perdure preview")]


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("block", PREVIEWS, ids=str)
def test_previews_look_the_same_in_every_usual_terminal(
    block: Block, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(width))
    result = CliRunner().invoke(app, shlex.split(block.text)[1:])

    assert block.answer is not None
    assert result.stdout == block.answer.text


def test_the_table_of_classes_is_the_one_that_decides() -> None:
    rows = _ROW.findall(PAGE.section("What is retried"))[1:]
    assert len(rows) == 7
    for outcomes, meaning in rows:
        for outcome in re.findall(r"`(\w+)`", outcomes):
            status = re.fullmatch(r"(\d)(\d\d|xx)", outcome)
            # No table has a line of its own for 99, so it stands for the whole class.
            number = None if status is None else int(outcome.replace("xx", "99"))
            code = outcome if status is None else None
            found = classify(number, code, {}, delay_requested="Retry-After" in outcomes)
            assert f"`{found}`" == meaning or (found is None and meaning == "success"), outcome


def test_every_jitter_is_explained() -> None:
    section = PAGE.section("A rate limit")

    assert [jitter for jitter in Jitter if f"| `{jitter.value}` |" not in section] == []


async def _fail_a_task(scenario: Scenario) -> None:
    await scenario.open()
    await scenario.submit(a_task("a", retry=fixed_retry()), a_task("b", retry=fixed_retry(20)))
    await scenario.run("a", "b")
    await scenario.fail("a", "b")
    await scenario.close()


async def test_queries_for_postgres_run(postgres_databases: PostgresDatabases) -> None:
    database = PostgresDatabase(postgres_databases)
    connection = await connect(database.url)
    clock = VirtualClock(await connection.fetchval("SELECT now()"))
    await _fail_a_task(Scenario(database, clock, StoreOptions("here")))
    found = [await connection.fetch(block.text) for block in blocks("sql")]
    await connection.close()
    database.remove()

    due, failed, fares = found
    assert [row["node_id"] for row in due] == ["a", "b"]
    assert failed == []
    assert [tuple(row) for row in fares] == [("fixed_delay", 0, 0)]


async def test_queries_for_sqlite_run(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    connection = sqlite3.connect(":memory:")
    (now,) = connection.execute("SELECT strftime('%s', 'now')").fetchone()
    connection.close()
    clock = VirtualClock()
    clock.set(clock.now().fromtimestamp(int(now), clock.now().tzinfo))
    await _fail_a_task(Scenario(SqliteDatabase(path), clock, StoreOptions("here")))
    connection = sqlite3.connect(path)
    (block,) = blocks("sqlite")
    found = connection.execute(block.text).fetchall()
    connection.close()

    assert [key for key, _ in found] == ["a", "b"]
