"""Applications on each database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Perdure


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each test runs on both."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def app(database_url: str) -> Iterator[Perdure]:
    with Perdure(database_url) as app:
        yield app
