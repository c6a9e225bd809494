"""The order in which tests look for PostgreSQL."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import postgres_binaries
from tests.support.postgres_account import Account, PostgresUnavailable
from tests.support.postgres_binaries import (
    BINARIES_VARIABLE,
    PACKAGE,
    copy_package_binaries,
    find_binaries,
    machine_binaries,
    package_binaries,
)


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without PostgreSQL."""
    monkeypatch.delenv(BINARIES_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(postgres_binaries, "DEBIAN_FOLDER", tmp_path / "debian")


def install(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for program in ("initdb", "postgres", "pg_ctl"):
        (folder / program).touch(mode=0o755)
    return folder


def test_the_folder_named_by_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(tmp_path / "path")
    monkeypatch.setenv(BINARIES_VARIABLE, str(install(tmp_path / "named")))

    assert find_binaries(Account()).folder == tmp_path / "named"


def test_a_wrong_folder_in_the_environment_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(BINARIES_VARIABLE, str(tmp_path))

    with pytest.raises(PostgresUnavailable, match="initdb and postgres are not there"):
        find_binaries(Account())


def test_a_link_on_the_path_leads_to_its_installation(tmp_path: Path) -> None:
    installation = install(tmp_path / "installation")
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "pg_ctl").symlink_to(installation / "pg_ctl")

    assert find_binaries(Account()).folder == installation


def test_of_several_versions_the_newest_is_used(tmp_path: Path) -> None:
    for version in ("9.6", "15", "18", "17"):
        install(tmp_path / "debian" / version / "bin")

    versions = [binaries.folder.parent.name for binaries in machine_binaries()]

    assert versions == ["18", "17", "15", "9.6"]


def test_a_bare_machine_uses_the_package() -> None:
    assert find_binaries(Account()).origin == PACKAGE


def test_without_any_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_binaries, "PACKAGE", "a_package_that_is_not_installed")

    with pytest.raises(PostgresUnavailable, match="Install the development dependencies"):
        find_binaries(Account())


def test_programs_copied_out_of_the_package_run(tmp_path: Path) -> None:
    original = next(package_binaries())

    copy = copy_package_binaries(original, tmp_path)

    assert copy.folder.is_relative_to(tmp_path)
    version = subprocess.run([copy.folder / "initdb", "--version"], check=True, capture_output=True, text=True)
    assert "PostgreSQL" in version.stdout
