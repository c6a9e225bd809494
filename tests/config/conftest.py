"""A working directory without a configuration, and a way to write one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

WriteFile = Callable[[str], Path]


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, so that no perdure.toml of the developer takes part."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write_file(empty_directory: Path) -> WriteFile:
    """Write a configuration file and return its path."""

    def write(text: str) -> Path:
        path = empty_directory / "chosen.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write
