"""One engine, one receiver and one clock, with short ways to say what happens to tasks and to see what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self
from urllib.parse import quote

from prometheus_client.parser import text_string_to_metric_families

from perdure.api import build_app
from perdure.assemble import make_instance
from perdure.config import Settings
from perdure.domain.model import Task
from perdure.domain.states import Status
from perdure.store.changes import Row
from perdure.store.interface import Session
from perdure.store.lookups import read_events
from perdure.telemetry.metrics import Metrics
from perdure.testing import VirtualClock
from tests.api.client import Client
from tests.engine.definitions import STEADY, Definition, task, webhook
from tests.engine.driven import HOST_URL, Driven
from tests.store.audit import audit
from tests.support.receiver import Receiver

#: More rounds than any story here takes to come to its end.
MOST_ROUNDS = 200
#: Retries at once, as many as are allowed.
AT_ONCE: dict[str, Any] = {"strategy": "immediate", "max_retries": 10}


@dataclass(slots=True)
class Story(Driven):
    """An engine driven by hand. Tasks made by `job` call the receiver at `/<key>`; times are seconds since `began`."""

    receiver: Receiver = field(kw_only=True)
    began: datetime = field(kw_only=True)

    @classmethod
    async def open(cls, settings: Settings, clock: VirtualClock, receiver: Receiver) -> Self:
        instance = make_instance(settings, HOST_URL, clock=clock)
        story = cls(instance, clock, receiver=receiver, began=clock.now())
        instance.store.on_commit(story.commits.append)
        await instance.store.open()
        return story

    async def close(self) -> None:
        await self.engine.stop()
        await self.instance.store.close()

    @property
    def client(self) -> Client:
        """The HTTP API of this engine."""
        instance = self.instance
        return Client(build_app(instance.engine.commands, instance.store, instance.metrics, instance.settings))

    # What happens.

    def job(self, key: str = "a", *dependencies: str | dict[str, Any], **members: Any) -> Definition:
        """A task that the receiver runs, retried after 10, 20 and 40 s unless it says otherwise."""
        members.setdefault("retry", STEADY)
        members.setdefault("on_start", webhook(self.receiver.url(f"/{quote(key)}")))
        return task(key, *dependencies, **members)

    def hook(self, path: str) -> dict[str, Any]:
        return webhook(self.receiver.url(path))

    async def run(self, *definitions: Definition, **members: Any) -> dict[str, str]:
        """Submit a batch and start what can start."""
        ids = await self.submit(*definitions, **members)
        await self.start()
        return ids

    async def run_one(self, definition: Definition) -> str:
        (id,) = (await self.run(definition)).values()
        return id

    async def fail(self, id: str, reason: str = "it broke", **members: Any) -> Task:
        """The receiver reports a failure."""
        return await self.report(id, "Failure", failure_reason=reason, **members)

    async def fail_for_good(self, id: str) -> Task:
        return await self.fail(id, error_class="final")

    async def at(self, second: float) -> None:
        """Go to this moment, and let everything happen that happens by itself then."""
        self.clock.set(self.began + timedelta(seconds=second))
        await self.work()

    async def fail_until_exhausted(self, id: str) -> Task:
        """Fail every attempt that the policy allows; the task as it is after the last of them."""
        for _ in range(MOST_ROUNDS):
            failed = await self.fail(id)
            if failed.status is not Status.RETRY_PENDING or failed.parked:
                return failed
            assert failed.next_retry_at is not None
            self.clock.set(failed.next_retry_at)
            await self.work()
        raise AssertionError("the task is retried for ever")

    async def finish(self, ids: Iterable[str]) -> None:
        """Let the receiver succeed with whatever runs, until every one of these tasks has ended."""
        left = list(ids)
        for _ in range(MOST_ROUNDS):
            await self.work()
            for id in left:
                if (await self.task(id)).status is Status.RUNNING:
                    await self.report(id)
            left = [id for id in left if (await self.task(id)).status.is_live]
            if not left:
                return
            moments = [moment for id in left if (moment := (await self.task(id)).next_retry_at) is not None]
            if moments:
                self.clock.set(max(self.clock.now(), min(moments)))
        raise AssertionError(f"these tasks do not end: {[await self.task(id) for id in left]}")

    # What can be seen.

    def second(self, moment: datetime | None) -> float | None:
        return None if moment is None else (moment - self.began).total_seconds()

    async def due(self, id: str) -> float | None:
        """When the retry starts."""
        return self.second((await self.task(id)).next_retry_at)

    async def progress(self, id: str) -> tuple[str, int, int, float | None]:
        """Status as people see it, attempt, budget spent, and when the retry starts."""
        found = await self.task(id)
        return await self.status(id), found.attempt, found.retry_count, self.second(found.next_retry_at)

    async def timeline(self, id: str) -> list[tuple[float, str, str, int]]:
        """When the task went from which status to which, in which attempt."""
        rows = await self.instance.store.read(lambda session: read_events(session, id))
        return [
            ((row["at"] - self.began).total_seconds(), row["from_status"], row["to_status"], row["attempt"])
            for row in rows
        ]

    async def hooks(self, id: str) -> list[str]:
        """What was or will be sent because the task ended or was canceled, as `trigger:attempt`."""
        return sorted(key for key in await self.deliveries(id) if not key.startswith("start:"))

    async def rows(self, *ids: str) -> list[dict[str, Any]]:
        """Everything that is stored about these tasks, or about all, to compare."""

        async def read(session: Session) -> list[Row]:
            return await session.query("SELECT * FROM task ORDER BY id", [])

        return [dict(row) for row in await self.instance.store.read(read) if not ids or row["id"] in ids]

    async def check_health(self) -> None:
        """The database agrees with itself, and the sweeper finds nothing to correct."""
        await audit(self.instance.store)
        before = await self.rows()
        await self.engine.sweep_loop.run_once()
        assert await self.rows() == before

    def starts(self, key: str) -> list[str]:
        """The idempotency keys with which on_start of a job was called, without the task's id."""
        requests = self.receiver.requests_to(f"/{key}")
        return [request.headers["Idempotency-Key"].partition(":")[2] for request in requests]

    def metric(self, name: str, **labels: str) -> float:
        return read_metric(self.instance.metrics, name, labels)


def read_metric(metrics: Metrics, name: str, labels: Mapping[str, str]) -> float:
    """One value, 0 if it was never counted."""
    text, _ = metrics.render()
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return 0.0
