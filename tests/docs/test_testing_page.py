"""The tests that docs/testing.md shows pass, and a failing one says what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.docs.markdown import page

PAGE = page("docs/testing.md")
PROGRAM = "\n\n".join(block.text for block in PAGE.blocks if block.language == "python")
CONFIGURATION = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"


def run_pytest(folder: Path, program: str) -> str:
    """What a user sees who has the program in one file."""
    (folder / "test_shop.py").write_text(program, "utf-8")
    (folder / "pytest.ini").write_text(CONFIGURATION, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--show-capture=no"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False).stdout


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    shown = len(re.findall(r"^async def test_", PROGRAM, re.MULTILINE))
    assert shown == 5

    assert f"{shown} passed" in run_pytest(tmp_path, PROGRAM)


def test_a_failed_assertion_looks_as_shown(tmp_path: Path) -> None:
    wrong = PROGRAM.replace('assert_attempts("charge", 8)', 'assert_attempts("charge", 3)')
    assert wrong != PROGRAM
    (shown,) = [block.text for block in PAGE.blocks if block.language == "text"]

    lines = run_pytest(tmp_path, wrong).splitlines()

    said = [re.sub(r"^E {7}(AssertionError: )?", "", line) for line in lines if line.startswith("E  ")]
    beginning, _, end = shown.partition("  …\n")
    assert "\n".join(said).startswith(beginning.rstrip())
    assert "\n".join(said).endswith(end.rstrip())
