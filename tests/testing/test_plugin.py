"""The fixture is there for every user of pytest, whatever runs their async tests, and costs the others nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import perdure.testing

TEST = """
import asyncio
import pytest

TASK = {"id": "a", "name": "a", "kind": "a", "completion": "response",
    "on_start": {"kind": "Webhook", "params": {"url": "https://pay", "verb": "Post"}},
    "retry": {"strategy": "custom", "schedule": ["7d", "7d"], "max_retries": 2}}

async def live_through(sim):
    sim.http("https://pay").answers(503).times(2).then(200)
    await sim.submit([TASK])
    await sim.run_until_idle()
    sim.assert_status("a", "Success")
    sim.assert_attempts("a", 3)
"""
WITH_ASYNCIO = ("-o", "asyncio_default_fixture_loop_scope=function")
WITHOUT_ASYNCIO = ("-p", "no:asyncio")
RUNNERS = {
    "pytest-asyncio": "@pytest.mark.asyncio\nasync def test_it(sim):\n    await live_through(sim)\n",
    "anyio": (
        "@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n\n"
        "@pytest.mark.anyio\nasync def test_it(sim):\n    await live_through(sim)\n"
    ),
    "none": "def test_it(sim):\n    asyncio.run(live_through(sim))\n",
}


def run_pytest(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_user.py").write_text(text, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("runner", RUNNERS)
def test_any_runner_of_async_tests_will_do(runner: str, tmp_path: Path) -> None:
    arguments = WITH_ASYNCIO if runner == "pytest-asyncio" else WITHOUT_ASYNCIO

    ended = run_pytest(tmp_path, TEST + RUNNERS[runner], *arguments)

    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


def test_a_failing_test_shows_the_timeline_and_none_of_our_code(tmp_path: Path) -> None:
    wrong = TEST.replace('assert_attempts("a", 3)', 'assert_attempts("a", 2)')

    ended = run_pytest(tmp_path, wrong + RUNNERS["none"], *WITHOUT_ASYNCIO, "--show-capture=no")

    assert "2 attempts were expected, 3 were made:" in ended.stdout
    assert "RetryPending: on_start webhook failed: HTTP 503" in ended.stdout
    assert "simulation.py" not in ended.stdout


def test_options_are_set_by_overriding_a_fixture(tmp_path: Path) -> None:
    override = """
from datetime import UTC, datetime

@pytest.fixture
def sim_options():
    return {"start": datetime(2040, 5, 1, tzinfo=UTC), "seed": 7}

def test_it(sim):
    assert sim.now.year == 2040
    asyncio.run(live_through(sim))
"""

    ended = run_pytest(tmp_path, TEST + override, *WITHOUT_ASYNCIO)

    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


def test_those_who_do_not_simulate_import_next_to_nothing() -> None:
    program = "import sys, perdure.testing.plugin; print(*sorted(name for name in sys.modules if 'perdure' in name))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ended.stdout.split() == ["perdure", "perdure.testing", "perdure.testing.plugin"]


def test_the_public_names_are_these() -> None:
    assert perdure.testing.__all__ == [
        "Attempt",
        "Endpoint",
        "Entry",
        "NeverIdle",
        "Sent",
        "Simulation",
        "SimulationOptions",
        "StuckFunction",
        "SubmittedTasks",
        "VirtualClock",
    ]
    assert all(getattr(perdure.testing, name).__name__ == name for name in perdure.testing.__all__)
    assert set(perdure.testing.__all__) <= set(dir(perdure.testing))
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        perdure.testing.Nothing  # noqa: B018
