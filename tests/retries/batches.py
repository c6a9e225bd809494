"""Batches that are run again as a whole."""

from __future__ import annotations

from typing import Any

from tests.engine.definitions import Definition
from tests.retries.story import Story

BY_THE_MINUTE: dict[str, Any] = {"strategy": "fixed_delay", "delay_secs": 60, "max_retries": 2}


async def run_batch(story: Story, *tasks: Definition, **members: Any) -> tuple[str, dict[str, str]]:
    """Submit a batch that is repeated after a minute, twice at most, and start it."""
    members.setdefault("retry", BY_THE_MINUTE)
    ids = await story.run(*tasks, **members)
    return (await story.task(next(iter(ids.values())))).batch_id, ids


async def live_on(story: Story, second: float) -> None:
    """Go to this moment, and let batches be judged and repeated."""
    await story.at(second)
    await story.engine.execution_loop.run_once()
    await story.start()


async def batch(story: Story, id: str) -> dict[str, Any]:
    shown: dict[str, Any] = (await story.client.get(f"/batch/{id}")).json
    return shown


async def repetitions(story: Story, id: str) -> list[str]:
    """The batches that were made from this one, oldest first."""
    rows = (await story.client.get("/batches")).json
    return [row["batch_id"] for row in sorted(rows, key=lambda row: row["attempt"]) if row["retry_of"] == id]


async def tasks_of(story: Story, batch_id: str) -> dict[str, str]:
    graph = (await story.client.get(f"/dag/{batch_id}")).json
    return {row["name"].removeprefix("task "): row["id"] for row in graph["tasks"]}
