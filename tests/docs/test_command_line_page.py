"""docs/command_line.md shows every command for people; that they do what it says is tested in test_docs.py."""

from __future__ import annotations

from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from perdure.cli.main import app
from tests.docs.markdown import page

#: For those who run servers, workers and databases: other pages show them.
FOR_OPERATORS = {"serve", "worker", "migrate", "config show", "version"}


def _commands(command: Any, name: str = "") -> list[str]:
    if not isinstance(command, TyperGroup):
        return [name]
    return [found for one in command.commands.values() for found in _commands(one, f"{name} {one.name}".strip())]


COMMANDS = sorted(set(_commands(get_command(app))) - FOR_OPERATORS)


def test_there_are_commands_for_people() -> None:
    assert {"batch watch", "retries", "submit", "task show"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_for_people_is_shown(name: str) -> None:
    shown = "".join(block.text for block in page("docs/command_line.md").blocks if block.language == "sh")

    assert f"perdure {name} " in shown
