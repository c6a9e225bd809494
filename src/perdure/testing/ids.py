"""Ids that are the same in every run: made of the virtual time and a count, not of chance."""

from __future__ import annotations

from uuid import UUID

from perdure.clock import Clock

_VERSION = 7 << 76
_VARIANT = 2 << 62
_MILLISECONDS = (1 << 48) - 1


class CountedIds:
    """Makes UUIDs of version 7. Later ones are greater, so tasks keep the order in which they were submitted."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = 0

    def __call__(self) -> str:
        self._count += 1
        milliseconds = int(self._clock.now().timestamp() * 1000) & _MILLISECONDS
        return str(UUID(int=milliseconds << 80 | _VERSION | _VARIANT | self._count))
