"""The programs of the page about the client run against a real server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import Block, page
from tests.docs.programs import Server, environment

SERVER = "127.0.0.1:8000"
PROGRAMS = [block for block in page("docs/client.md").blocks if block.language == "python"]


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_program_runs_as_shown(program: Block, tmp_path: Path) -> None:
    with Server(tmp_path, environment(tmp_path), "--no-engine", "--port", "0") as server:
        server.wait_until_started()
        text = program.text.replace(SERVER, server.address)
        ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout
