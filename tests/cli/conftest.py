"""Places to work on: each command must do the same on all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.place import Place
from tests.docs.programs import Server, environment


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, in which nothing is configured from outside."""
    for name in list(os.environ):
        if name.startswith(("PERDURE_", "RETRY_")) or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("PERDURE_ALLOW_LOOPBACK", "1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def place(folder: Path) -> Place:
    """A database file that is worked on directly."""
    url = f"sqlite:///{folder}/jobs.db"
    return Place(folder, url, ("--database-url", url))


@pytest.fixture(params=["sqlite", "postgres", "server"])
def every_place(request: pytest.FixtureRequest, folder: Path) -> Iterator[Place]:
    """Both databases worked on directly, and a database file through a server."""
    if request.param == "sqlite":
        yield request.getfixturevalue("place")
    elif request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        yield Place(folder, url, ("--database-url", url))
    else:
        url = f"sqlite:///{folder}/jobs.db"
        with Server(folder, environment(folder), "--no-engine", "--port", "0", "--database-url", url) as server:
            server.wait_until_started()
            yield Place(folder, url, ("--url", f"http://{server.address}"))
