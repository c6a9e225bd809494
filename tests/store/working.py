"""What a Python worker does to the store, in short."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from perdure.domain.model import Executor
from perdure.store.changes import Row
from perdure.store.verbs.claim import Claim
from perdure.store.verbs.end import Succeed
from perdure.store.verbs.fail import Failed
from perdure.store.verbs.work import Round, Sign, Turn, lose_workers, parent_results, renew_leases, show_life, work
from tests.store.drafts import broken
from tests.store.scenario import LEASE, MANY, Scenario


class Working:
    """One worker on the instance of a scenario; tasks are called by their keys."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario

    async def begin(self, most: int = MANY, **wanted: Any) -> list[str]:
        """Claim and begin; the keys, in the order of the alphabet."""
        turn = await self.round(wanted=self.claim(most, **wanted))
        return self.keys(turn.begun)

    def claim(self, most: int = MANY, **wanted: Any) -> Claim:
        now = self._scenario.clock.now()
        return Claim(Executor.WORKER, most, lease_until=now + LEASE, stale=now, **wanted)

    async def round(
        self, succeeded: Sequence[Succeed] = (), failed: Sequence[Failed] = (), wanted: Claim | None = None
    ) -> Turn:
        told = Round(succeeded, failed, wanted)
        return await self._scenario.store.write(lambda session: work(session, told, self._scenario.decide))

    def done(self, key: str, attempt: int = 0, result: str | None = None) -> Succeed:
        return Succeed(self._scenario.ids[key], attempt, result)

    def failed(self, key: str, attempt: int = 0, **failure: Any) -> Failed:
        return Failed(self._scenario.ids[key], attempt, broken(**failure))

    async def renew(self, *held: tuple[str, int], lease: timedelta = LEASE) -> list[str]:
        """Keep tasks for longer from now; the keys of those that are still this instance's."""
        asked = [(self._scenario.ids[key], attempt) for key, attempt in held]
        until = self._scenario.clock.now() + lease
        kept = await self._scenario.store.write(lambda session: renew_leases(session, asked, until), apart=True)
        return sorted(self._scenario.key_of(id) for id, _ in kept)

    async def show_life(self, key: str, attempt: int = 0, done: int | None = None, total: int | None = None) -> None:
        sign = Sign(self._scenario.ids[key], attempt, done, total)
        await self._scenario.store.write(lambda session: show_life(session, [sign]), apart=True)

    async def lose(self, most: int = MANY) -> list[str]:
        """Look for workers that show no life; the keys of what they ran."""
        decide = self._scenario.decide
        return self.keys(await self._scenario.store.write(lambda session: lose_workers(session, most, decide)))

    async def parents(self, key: str) -> list[tuple[str, str, str, Any]]:
        """What a task waited for: key, kind, status and result."""
        id = self._scenario.ids[key]
        found = await self._scenario.store.read(lambda session: parent_results(session, [id]))
        return [(row["key"], row["kind"], row["status"], row["result"]) for row in found.get(id, [])]

    def keys(self, rows: Sequence[Row]) -> list[str]:
        return sorted(self._scenario.key_of(row["id"]) for row in rows)
