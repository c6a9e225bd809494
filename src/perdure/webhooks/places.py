"""Places for calls under way: so many in all, and so many for one destination, lest a slow one take them all."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass


class NoPlace(Exception):
    """The destination is so busy that the call was not made; nothing was sent."""


@dataclass(slots=True)
class _Destination:
    places: asyncio.Semaphore
    users: int = 0


class Places:
    """`patience_secs` bounds the wait for a place: beyond it, others may have taken the call over."""

    def __init__(self, total: int, per_destination: int, patience_secs: float | None = None) -> None:
        self._total = asyncio.Semaphore(total)
        self._per_destination = per_destination
        self._patience_secs = patience_secs
        self._destinations: dict[str, _Destination] = {}

    def __len__(self) -> int:
        """How many destinations are being called or waited for."""
        return len(self._destinations)

    def take(self, destination: str) -> AbstractAsyncContextManager[None]:
        """Hold a place while entered; raises `NoPlace`."""
        return _Stay(self, destination)

    async def enter(self, destination: str) -> None:
        """Raises `NoPlace`; else `leave` has to follow."""
        entry = self._destinations.get(destination)
        if entry is None:
            entry = self._destinations[destination] = _Destination(asyncio.Semaphore(self._per_destination))
        entry.users += 1
        try:
            # A place of the destination first: who waits for it must not hold one that others could use.
            await self._acquire(entry.places, destination)
            try:
                await self._acquire(self._total, destination)
            except BaseException:
                entry.places.release()
                raise
        except BaseException:
            self._forget_user(destination, entry)
            raise

    def leave(self, destination: str) -> None:
        entry = self._destinations[destination]
        self._total.release()
        entry.places.release()
        self._forget_user(destination, entry)

    def _forget_user(self, destination: str, entry: _Destination) -> None:
        entry.users -= 1
        if entry.users == 0:
            del self._destinations[destination]

    async def _acquire(self, places: asyncio.Semaphore, destination: str) -> None:
        if not places.locked():
            # Nobody waits, so this does not either: no timer is needed.
            await places.acquire()
            return
        try:
            async with asyncio.timeout(self._patience_secs):
                await places.acquire()
        except TimeoutError:
            raise NoPlace(
                f"{destination} was too busy for {self._patience_secs:g} s: {self._per_destination} calls to it are "
                "under way, and none ended"
            ) from None


@dataclass(slots=True)
class _Stay(AbstractAsyncContextManager[None]):
    """A class, because a generator would take longer to enter and leave than there is to do."""

    places: Places
    destination: str

    async def __aenter__(self) -> None:
        await self.places.enter(self.destination)

    async def __aexit__(self, *_: object) -> None:
        self.places.leave(self.destination)
