"""What one drain came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be drained."""

    tasks: int
    """Tasks that do nothing and succeed."""
    failing: int
    """Tasks that fail twice, are tried again at once, and then succeed."""
    later: int = 0
    """Tasks beside them that are scheduled for next month."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How one kind of task was drained."""

    tasks: float
    """A second."""
    worker_micros: float | None = None
    """Processor time of the worker's process for one task, where it is known: what the database does not bound."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Nothing where there was nothing to drain or the contestant cannot do it."""

    tasks: Rate | None
    failing: Rate | None = None


def measured(work: Work, took: Sequence[Sequence[float]]) -> Measured:
    """From the seconds, by the clock and of the processor, of the two drains, one after the other."""
    tasks, failing = took
    return Measured(_rate(work.tasks, *tasks), _rate(work.failing, *failing))


def _rate(count: int, seconds: float, processor_seconds: float) -> Rate | None:
    return Rate(count / seconds, processor_seconds / count * 1e6) if count else None
