"""Talking to a server as its users do."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.engine.definitions import Definition

TERMINAL = ("success", "failure", "canceled", "skipped")


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    json: Any


@dataclass(frozen=True, slots=True)
class Submitted:
    """A batch, with the ids of its tasks by key."""

    id: str
    ids: dict[str, str]


class Client:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url

    async def request(self, method: str, path: str, value: Any = None) -> Answered:
        """Any answer, whatever it says."""
        # From a file, because the library warns of bytes that would hold up the event loop.
        body = None if value is None else io.BytesIO(json.dumps(value).encode())
        headers = {"Content-Type": "application/json"}
        async with self._session.request(method, f"{self.url}{path}", data=body, headers=headers) as response:
            is_json = response.content_type.endswith("json")
            return Answered(response.status, await response.json(content_type=None) if is_json else None)

    async def expect(self, status: int, method: str, path: str, value: Any = None) -> Any:
        """What was answered, which must have this status."""
        answered = await self.request(method, path, value)
        assert answered.status == status, f"{method} {path}: {answered}"
        return answered.json

    async def submit(self, tasks: Sequence[Definition], **members: Any) -> Submitted:
        created = await self.expect(201, "POST", "/batch", {"tasks": list(tasks), **members})
        return Submitted(created["batch_id"], {task["key"]: task["id"] for task in created["tasks"]})

    async def task(self, id: str) -> Any:
        return await self.expect(200, "GET", f"/task/{id}")

    async def counts(self, batch: Submitted) -> dict[str, int]:
        """How many tasks show which status; those that none shows are left out."""
        counts = (await self.expect(200, "GET", f"/batch/{batch.id}"))["status_counts"]
        return {status: count for status, count in counts.items() if count}

    async def statuses(self, batch: Submitted) -> dict[str, str]:
        """The status of each task by key."""
        dag = await self.expect(200, "GET", f"/dag/{batch.id}")
        shown = {task["id"]: task["status"] for task in dag["tasks"]}
        return {key: shown[id] for key, id in batch.ids.items()}

    async def failures(self, batch: Submitted) -> dict[str, str]:
        """Why tasks failed, by key; of a hundred of them at most."""
        failed = await self.expect(200, "GET", f"/task?status=Failure&batch_id={batch.id}&page_size=100")
        tasks = [await self.task(short["id"]) for short in failed]
        return {task["key"]: task["failure_reason"] for task in tasks}

    async def wait_until(
        self, batch: Submitted, condition: Callable[[dict[str, int]], bool], timeout: float = 30
    ) -> dict[str, int]:
        """Wait until the counts of a batch are as wanted, where no webhook tells of it."""
        counts: dict[str, int] = {}
        try:
            async with asyncio.timeout(timeout):
                while not condition(counts := await self.counts(batch)):  # noqa: ASYNC110 - the server has no event
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"After {timeout} s the tasks are {counts}") from None
        return counts

    async def wait_until_over(self, batch: Submitted, timeout: float = 30) -> dict[str, int]:
        return await self.wait_until(batch, lambda counts: not set(counts) - set(TERMINAL), timeout)
