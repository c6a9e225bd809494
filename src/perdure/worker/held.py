"""The tasks that a worker runs right now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from perdure.worker.context import Context


@dataclass(slots=True)
class Held:
    """One task in the worker's hands."""

    context: Context
    linked: bool = True
    """False if the task stands alone."""
    running: asyncio.Task[None] | None = None
    begun: bool = False
    """Whether `running` has come to its first line; cancelled before, it would never come to its last."""
    taken_away: bool = False
    """Somebody else ended the attempt: there is nothing to report."""

    @property
    def identity(self) -> tuple[str, int]:
        return self.context.task_id, self.context.attempt

    def take_away(self) -> None:
        """Stop working on it: cancels an async function, and tells one in a thread when it asks."""
        self.taken_away = True
        self.stop()

    def tell(self) -> None:
        """Let a function that asks hear that it should end."""
        self.context._stopped = True

    def stop(self) -> None:
        self.tell()
        if self.running is not None and self.begun:
            self.running.cancel()


@dataclass(slots=True)
class HeldTasks:
    tasks: dict[tuple[str, int], Held] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self.tasks.values()))

    def add(self, held: Held) -> None:
        self.tasks[held.identity] = held

    def remove(self, held: Held) -> None:
        self.tasks.pop(held.identity, None)

    def take_away(self, identity: tuple[str, int]) -> None:
        held = self.tasks.get(identity)
        if held is not None:
            held.take_away()
