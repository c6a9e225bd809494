"""For tests, ours and yours: time that moves when it is told to."""

from perdure.testing.clock import VirtualClock

__all__ = ["VirtualClock"]
