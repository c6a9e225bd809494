"""Where commands work: what was typed counts more than the environment, and asking never makes a database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from perdure.cli.main import app
from tests.docs.programs import free_port
from tests.engine.definitions import UNKNOWN, task

READING = [
    ("task", "list"),
    ("task", "show", UNKNOWN),
    ("task", "retry", UNKNOWN),
    ("task", "cancel", UNKNOWN),
    ("batch", "list"),
    ("batch", "show", UNKNOWN),
    ("batch", "watch", UNKNOWN),
    ("retries",),
    ("retries", "--stats"),
]


def run(*arguments: str, input: str | None = None) -> Result:  # noqa: A002
    return CliRunner().invoke(app, arguments, input=input)


def nowhere() -> str:
    """The address of a server that is not there."""
    return f"http://127.0.0.1:{free_port()}"


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_asking_makes_no_database(folder: Path, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)

    assert (result.exit_code, result.stdout) == (1, "")
    assert "There is no database file perdure.db." in result.stderr
    assert list(folder.iterdir()) == []


def test_the_configured_database_is_the_default(folder: Path) -> None:
    (folder / "perdure.toml").write_text('[server]\ndatabase_url = "sqlite:///configured.db"\n')
    assert run("submit", "-", input=json.dumps(task("a"))).exit_code == 0

    assert (folder / "configured.db").exists()
    (folder / "other.toml").write_text('[server]\ndatabase_url = "sqlite:///other.db"\n')
    assert "There is no database file other.db." in run("task", "list", "--config", "other.toml").stderr
    assert len(json.loads(run("task", "list", "--json").stdout)) == 1


def test_a_configuration_that_cannot_be_used(folder: Path) -> None:
    (folder / "perdure.toml").write_text("[server]\nport = 'x'\n")

    result = run("task", "list")
    assert result.exit_code == 2
    assert result.stderr.startswith("The configuration has problems:\n")


@pytest.mark.usefixtures("folder")
def test_the_environment_names_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    url = nowhere()
    monkeypatch.setenv("PERDURE_URL", url)

    result = run("batch", "stop", UNKNOWN)
    assert result.exit_code == 1
    assert url.removeprefix("http://") in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.usefixtures("folder")
def test_a_database_that_is_named_counts_more_than_a_server_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_URL", nowhere())

    assert "There is no database file x.db." in run("task", "list", "--database-url", "sqlite:///x.db").stderr
    assert run("config", "show").exit_code == 0, "it is no setting of a server"


@pytest.mark.usefixtures("folder")
def test_two_places_are_one_too_many() -> None:
    result = run("task", "list", "--url", nowhere(), "--database-url", "sqlite:///x.db")

    assert result.exit_code == 2
    assert "give one of them" in result.stderr


@pytest.mark.usefixtures("folder")
def test_a_database_that_does_not_answer_is_named_without_its_password() -> None:
    url = f"postgresql://me:hunter2@127.0.0.1:{free_port()}/jobs"
    result = run("task", "list", "--database-url", url)

    assert result.exit_code == 1
    assert url.replace("hunter2", "***") in result.stderr
    assert "hunter2" not in result.stderr


def test_a_file_that_is_no_database(folder: Path) -> None:
    (folder / "perdure.db").write_text("hello, I am a letter and not a database at all\n" * 100)
    result = run("task", "list")

    assert result.exit_code == 1
    assert "perdure.db" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.usefixtures("folder")
def test_problems_are_json_too() -> None:
    result = run("task", "list", "--json")

    assert (result.exit_code, result.stdout) == (1, "")
    assert json.loads(result.stderr)["error"].startswith("There is no database file perdure.db.")
