"""The reference page is complete, up to date, and its examples work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.config import load
from perdure.config.declare import Setting
from perdure.config.reference import render_reference
from perdure.config.settings import SETTINGS, TABLES
from tests.config.conftest import WriteFile

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
EXAMPLES = re.findall(r"^```toml\n(.*?)^```", render_reference(), re.MULTILINE | re.DOTALL)


def test_the_page_is_up_to_date() -> None:
    written = PAGE.read_text(encoding="utf-8")

    assert written == render_reference(), "run: python -m perdure.config.reference > docs/configuration.md"


def test_the_module_prints_the_page() -> None:
    command = [sys.executable, "-m", "perdure.config.reference"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert printed == render_reference()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_documented(setting: Setting) -> None:
    section = render_reference().split(f"### [{setting.section}]\n")[1].split("\n### ")[0]
    [row] = [line for line in section.splitlines() if line.startswith(f"| `{setting.key}` |")]

    assert setting.declaration.description in row
    assert all(f"`{name}`" in row for name in setting.environment_names)


def test_every_table_is_documented() -> None:
    assert all(f" {table.entry}\n\n{table.description}\n" in render_reference() for table in TABLES)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_can_be_loaded(write_file: WriteFile, example: str) -> None:
    assert load(environ={}, path=write_file(example)).sources
