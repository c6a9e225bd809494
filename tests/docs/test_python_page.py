"""docs/python.md: its Python runs in order in one program, on both databases, and its workers start as shown."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.docs.answers import find_difference
from tests.docs.markdown import Block, page
from tests.docs.programs import Worker, environment
from tests.docs.python_blocks import PythonBlocks, file_name, save

PAGE = page("docs/python.md")
DATABASE = "postgresql://perdure@db.internal/perdure"
#: What a block imports that is meant for one database.
DRIVERS = {"sqlite": "sqlite3", "postgres": "asyncpg"}


def _runs_on(block: Block, database: str) -> bool:
    return not any(f"import {driver}" in block.text for name, driver in DRIVERS.items() if name != database)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
async def test_its_python_does_what_it_says(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    if database == "postgres":
        monkeypatch.setenv("DATABASE_URL", request.getfixturevalue("postgres_url"))
    with PythonBlocks("python_page", tmp_path) as blocks:
        for block in PAGE.blocks:
            if block.language == "python" and _runs_on(block, database):
                printed = await blocks.run(block)
                shown = "" if block.answer is None else block.answer.text
                difference = find_difference("text", shown, printed)
                assert difference is None, f"{block}: {difference}"
        blocks["app"].close()


COMMANDS = [
    line
    for block in PAGE.blocks
    if block.language == "sh" and block.text.startswith("perdure worker")
    for line in block.text.splitlines()
]


@pytest.mark.parametrize("line", COMMANDS)
def test_its_workers_start_and_stop(line: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    for block in PAGE.blocks:
        if file_name(block) is not None:
            save(block, tmp_path)
    _, _, *arguments = shlex.split(line, comments=True)
    if DATABASE in arguments:
        url: str = request.getfixturevalue("postgres_url")
        arguments = [url if argument == DATABASE else argument for argument in arguments]
    with Worker(tmp_path, environment(tmp_path), *arguments) as worker:
        worker.wait_until_started()
        assert worker.stop() == 0


def test_every_other_command_is_run() -> None:
    others = [block for block in PAGE.blocks if block.language not in ("python", "text", "toml")]

    assert [block for block in others if not block.text.startswith("perdure worker")] == []
