"""Each example runs by one command on either database, ends by itself, and does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from tests.docs.markdown import ROOT
from tests.docs.programs import environment

FOLDER = ROOT / "examples"
SECONDS_TO_END = 120


@dataclass(frozen=True, slots=True)
class Row:
    """What the database says of a task."""

    batch: str
    key: str
    status: str
    attempt: int
    retry_count: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where an example runs: on a PostgreSQL, or with nothing but a folder for temporary files."""

    folder: Path
    database_url: str | None

    def run(self, name: str) -> list[str]:
        """The lines that the example prints."""
        variables = environment(self.folder, self.database_url) | {"TMPDIR": str(self.temporary)}
        self.temporary.mkdir()
        done = subprocess.run(
            [sys.executable, "-W", "error", FOLDER / name],
            cwd=self.folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=SECONDS_TO_END,
        )
        assert done.returncode == 0, done.stderr
        assert "Warning" not in done.stderr
        return done.stdout.splitlines()

    @property
    def temporary(self) -> Path:
        return self.folder / "temporary"

    async def check(self, *expected: Row) -> None:
        """On PostgreSQL, compare what is stored; a file must be gone."""
        assert os.listdir(self.temporary) == []
        if self.database_url is None:
            return
        connection = await asyncpg.connect(self.database_url)
        found = await connection.fetch(
            """SELECT batch.name, task.key, task.status, task.attempt, task.retry_count
            FROM task JOIN batch ON batch.id = task.batch_id ORDER BY batch.id, task.position"""
        )
        await connection.close()
        assert [Row(*row) for row in found] == list(expected)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, None if request.param == "sqlite" else request.getfixturevalue("postgres_url"))


def test_every_example_is_run_here() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.py")) == ["crawler.py", "nightly_etl.py", "order_dag.py"]


async def test_orders_survive_an_outage_and_are_refunded_if_they_cannot_be_shipped(place: Place) -> None:
    assert place.run("order_dag.py") == [
        "order 1: charge 29.00, attempt 0",
        "order 1: charge 29.00, attempt 1",
        "order 1: charge 29.00, attempt 2",
        "order 1: reserve teapot",
        "order 1: ship from shelf-1",
        "order 1: tell the customer: parcel-1 is on its way",
        "order 1 is over: parcel-1 is on its way",
        "order 2: charge 99.00, attempt 0",
        "order 2: reserve trident",
        "order 2: refund pay-2",
        "order 2: tell the customer: we are sorry, you have your money back",
        "order 2 is over: we are sorry, you have your money back",
    ]
    await place.check(
        Row("order 1", "charge", "success", 2, 2),
        Row("order 1", "reserve", "success", 0, 0),
        Row("order 1", "ship", "success", 0, 0),
        Row("order 1", "refund", "skipped", 0, 0),
        Row("order 1", "notify", "success", 0, 0),
        Row("order 2", "charge", "success", 0, 0),
        Row("order 2", "reserve", "success", 0, 0),
        Row("order 2", "ship", "failure", 0, 0),
        Row("order 2", "refund", "success", 0, 0),
        Row("order 2", "notify", "success", 0, 0),
    )


async def test_the_crawler_waits_as_asked_and_fetches_everything_that_is_there(place: Place) -> None:
    lines = place.run("crawler.py")

    fetched = dict(re.findall(r"^(page-\d+): fetched in attempt (\d+)$", "\n".join(lines), re.MULTILINE))
    refused = Counter(re.findall(r"^(page-\d+): 429 Too Many Requests$", "\n".join(lines), re.MULTILINE))
    assert sorted(fetched) == [f"page-{number}" for number in range(1, 10)]
    assert all(attempt == str(refused[page]) for page, attempt in fetched.items())
    # Four answers at a time.
    assert len([page for page in fetched if refused[page]]) == 5
    assert lines[-2:] == ["left out: the parent 'page-10' has no result: it is Failure", "9 pages, 45 words"]
    await place.check(
        # A wait that was asked for is an attempt, and costs no retry.
        *(Row("crawl", page, "success", refused[page], 0) for page in sorted(fetched)),
        Row("crawl", "page-10", "failure", refused["page-10"], 0),
        Row("crawl", "summarize", "success", 0, 0),
    )


async def test_every_night_takes_its_branch_and_is_reported(place: Place) -> None:
    lines = place.run("nightly_etl.py")

    assert [line for line in lines if "attempt" not in line] == [
        "2026-11-16: 2 sales loaded",
        "2026-11-17: 2026-11-17.quarantined waits for somebody to look at it",
        "2026-11-18: there was nothing to load",
    ]
    assert Counter(line for line in lines if "attempt" in line) == Counter(
        f"{day}: not ready, attempt {attempt}"
        for day, attempts in {"2026-11-16": 1, "2026-11-17": 1, "2026-11-18": 4}.items()
        for attempt in range(attempts)
    )
    await place.check(
        Row("sales of 2026-11-16", "extract", "success", 1, 1),
        Row("sales of 2026-11-16", "validate", "success", 0, 0),
        Row("sales of 2026-11-16", "load", "success", 0, 0),
        Row("sales of 2026-11-16", "quarantine", "skipped", 0, 0),
        Row("sales of 2026-11-16", "report", "success", 0, 0),
        Row("sales of 2026-11-17", "extract", "success", 1, 1),
        Row("sales of 2026-11-17", "validate", "failure", 0, 0),
        Row("sales of 2026-11-17", "load", "failure", 0, 0),
        Row("sales of 2026-11-17", "quarantine", "success", 0, 0),
        Row("sales of 2026-11-17", "report", "success", 0, 0),
        Row("sales of 2026-11-18", "extract", "failure", 3, 3),
        Row("sales of 2026-11-18", "validate", "failure", 0, 0),
        Row("sales of 2026-11-18", "load", "failure", 0, 0),
        Row("sales of 2026-11-18", "quarantine", "failure", 0, 0),
        Row("sales of 2026-11-18", "report", "success", 0, 0),
    )
