"""docs/tutorial.md, followed step by step: files are saved, workers run beside, commands print what is shown."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.docs.commands import run_block
from tests.docs.markdown import page
from tests.docs.programs import Shell, Worker, environment
from tests.docs.python_blocks import file_name, save

PAGE = page("docs/tutorial.md")
WORKER = "perdure worker shop:app\n"


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_newcomer_gets_through(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = None if database == "sqlite" else request.getfixturevalue("postgres_url")
    # What a worker compiled before its file was replaced within the same second would be taken for the new one.
    variables = {**environment(tmp_path, url), "PYTHONDONTWRITEBYTECODE": "1"}
    with ExitStack() as terminals:
        shell = terminals.enter_context(Shell(tmp_path, variables))
        worker: Worker | None = None
        for block in PAGE.blocks:
            if file_name(block) is not None:
                save(block, tmp_path)
            elif block.text == WORKER:
                if worker is not None:
                    assert worker.stop() == 0
                worker = terminals.enter_context(Worker(tmp_path, variables, "shop:app"))
                worker.wait_until_started()
            elif block.language == "sh":
                run_block(shell, block, lambda text: text)
            else:
                assert block.language == "text", f"nobody reads {block}"
