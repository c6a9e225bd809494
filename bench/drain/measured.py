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
class Measured:
    """Tasks a second; nothing where there was nothing to drain or the contestant cannot do it."""

    tasks: float | None
    failing: float | None = None


def rates(work: Work, seconds: Sequence[float]) -> Measured:
    """From the seconds of the two drains, one after the other."""
    tasks, failing = seconds
    return Measured(work.tasks / tasks if work.tasks else None, work.failing / failing if work.failing else None)
