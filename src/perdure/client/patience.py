"""How long somebody waits for something, and how often it is looked at meanwhile."""

from __future__ import annotations

from typing import TypeVar

from perdure.client.conversation import Conversation
from perdure.client.errors import TimedOut, Unavailable, Unreachable
from perdure.clock import monotonic

Shape = TypeVar("Shape")

FIRST_PAUSE_SECS = 0.05
LONGEST_PAUSE_SECS = 2.0


class Patience:
    """Pauses between looks at something: short at first, longer while nothing changes, until the time is over."""

    def __init__(self, what: str, timeout: float | None) -> None:
        self._what = what
        self._timeout = timeout
        self._pause = FIRST_PAUSE_SECS
        self.until = None if timeout is None else monotonic() + timeout

    @property
    def is_over(self) -> bool:
        return self.until is not None and monotonic() >= self.until

    def shorten(self) -> None:
        """Something has changed, so more may soon."""
        self._pause = FIRST_PAUSE_SECS

    def next_pause(self, state: str) -> float:
        """Seconds until the next look; raises TimedOut if the time is over."""
        pause, self._pause = self._pause, min(self._pause * 1.5, LONGEST_PAUSE_SECS)
        if self.until is None:
            return pause
        left = self.until - monotonic()
        if left <= 0:
            raise self.timed_out(f"is still {state}")
        return min(pause, left)

    def timed_out(self, state: str) -> TimedOut:
        return TimedOut(f"{self._what} {state} after {self._timeout:g} s. It goes on; wait again, or cancel it.")


async def look(server: Conversation, shape: type[Shape], path: str, patience: Patience) -> Shape:
    """What is there now; raises TimedOut if no answer came in time."""
    try:
        return await server.read(shape, "GET", path, until=patience.until)
    except (Unreachable, Unavailable) as error:
        if patience.is_over:
            raise patience.timed_out(f"could not be looked at ({error})") from error
        raise
