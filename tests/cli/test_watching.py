"""`perdure batch watch`: a line for each change, a bar on a terminal, one document for programs."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import AsyncIterator
from io import StringIO

import msgspec
import pytest
from rich.console import Console

from perdure.cli.watching import ended_well, follow
from perdure.client import Batch
from perdure.domain.states import SHOWN
from tests.cli.place import Place, hook
from tests.docs.programs import environment
from tests.system.process import command

SECONDS_TO_END = 60


def a_batch(name: str | None = "Nightly", **counts: int) -> Batch:
    return msgspec.convert(
        {
            "batch_id": "01890a5d-ac96-774b-bcce-b302099a8057",
            "name": name,
            "namespace": "default",
            "total_tasks": sum(counts.values()),
            "status_counts": dict.fromkeys(SHOWN, 0) | counts,
            "total_success": 0,
            "total_failures": 0,
            "total_expected": None,
            "kinds": ["etl"],
            "first_created_at": "2026-11-18T08:30:17Z",
            "latest_updated_at": "2026-11-18T08:30:17Z",
            "created_at": "2026-11-18T08:30:17Z",
            "context": None,
            "retry": None,
            "retry_of": None,
            "attempt": 0,
            "retry_state": None,
            "next_retry_at": None,
        },
        Batch,
    )


async def changes(*batches: Batch) -> AsyncIterator[Batch]:
    for batch in batches:
        yield batch


async def test_elsewhere_each_change_is_a_line() -> None:
    printed = StringIO()
    console = Console(file=printed, width=200)
    last = await follow(changes(a_batch(waiting=1, running=1), a_batch(running=1, success=1)), console)

    assert printed.getvalue() == "0/2  1 Waiting, 1 Running\n1/2  1 Running, 1 Success\n"
    assert last == a_batch(running=1, success=1)


async def test_a_terminal_has_a_bar() -> None:
    printed = StringIO()
    console = Console(file=printed, width=120, force_terminal=True, color_system=None)
    hostile = "[red]\x1b[2J"
    await follow(changes(a_batch(hostile, pending=2), a_batch(hostile, success=2)), console)

    lines = printed.getvalue()
    assert r"[red]\x1b[2J" in lines
    assert "2/2" in lines
    assert "2 Success" in lines
    assert "━" in lines
    assert "\x1b[2J" not in lines.replace("\\x1b[2J", "")


@pytest.mark.parametrize(
    ("batch", "well"),
    [
        (a_batch(success=2), True),
        (a_batch(success=1, skipped=1), True),
        (a_batch(success=1, failure=1), False),
        (a_batch(success=1, canceled=1), False),
    ],
)
def test_failures_and_cancellations_do_not_end_well(batch: Batch, well: bool) -> None:
    assert ended_well(batch) is well


def watch(place: Place, batch: str) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    return subprocess.Popen(
        [*command(), "batch", "watch", batch, *place.flags],
        cwd=place.folder,
        env=environment(place.folder) | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_batch_is_followed_to_its_end(every_place: Place) -> None:
    ids = every_place.submit(hook("a"), hook("b", "a"), name="Nightly")
    with watch(every_place, ids["batch"]) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "0/2  1 Waiting, 1 Pending\n"
        every_place.end(ids["a"])
        every_place.end(ids["b"])
        *_, change, end = watching.stdout.read().splitlines()
        assert (change, end) == ("2/2  2 Success", "Nightly is over.")
        assert watching.wait(SECONDS_TO_END) == 0


def test_whoever_has_seen_enough_leaves_quietly(every_place: Place) -> None:
    ids = every_place.submit(hook("a"))
    with watch(every_place, ids["batch"]) as watching:
        assert watching.stdout is not None and watching.stderr is not None
        watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        assert watching.wait(SECONDS_TO_END) == 130
        assert watching.stderr.read() == ""
    assert every_place.answers("task", "show", ids["a"])["status"] == "Pending", "the batch goes on"


def test_a_batch_that_failed_is_told_by_the_exit_code(place: Place) -> None:
    ids = place.submit(hook("a"))
    place.end(ids["a"], "Failure")

    assert place.run("batch", "watch", ids["batch"]).exit_code == 1
    result = place.run("batch", "watch", ids["batch"], "--json")
    assert result.exit_code == 1
    assert msgspec.json.decode(result.stdout, type=Batch).status_counts["failure"] == 1
