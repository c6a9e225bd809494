"""The same seed gives the same moments, the same ids and the same calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perdure.testing import Simulation
from tests.testing.tasks import call, webhook

JITTERED = {"max_retries": 10, "initial_delay_secs": 5, "max_delay_secs": 600, "jitter": "full"}


async def live_through(folder: Path, name: str, seed: int) -> list[Any]:
    """Many tasks that fail together, with end webhooks that fail together; everything that was sent, and when."""
    async with Simulation(f"sqlite:///{folder}/{name}.db", seed=seed) as sim:
        sim.http("https://pay").down("2m").then(503).times(7).then(200).slow("2s")
        sim.http("https://audit").down("15m").then(200)
        tasks = await sim.submit(
            [
                call("https://pay", f"task-{number}", retry=JITTERED, on_success=[webhook("https://audit")])
                for number in range(10)
            ]
        )
        await sim.run_until_idle()
        return [[(sent.at, sent.key, sent.answer) for sent in sim.sent], *map(sim.timeline, tasks.values())]


async def test_the_same_seed_gives_the_same_timelines(tmp_path: Path) -> None:
    assert await live_through(tmp_path, "first", 7) == await live_through(tmp_path, "second", 7)


async def test_another_seed_gives_others(tmp_path: Path) -> None:
    assert await live_through(tmp_path, "first", 7) != await live_through(tmp_path, "second", 8)
