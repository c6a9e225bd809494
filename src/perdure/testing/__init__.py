"""For tests, ours and yours: time that moves when it is told to, receivers that answer by script."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.testing.clock import VirtualClock
    from perdure.testing.driver import NeverIdle
    from perdure.testing.options import SimulationOptions
    from perdure.testing.scripted_http import Endpoint
    from perdure.testing.scripted_sender import Sent
    from perdure.testing.simulation import Simulation, SubmittedTasks
    from perdure.testing.timeline import Attempt, Entry
    from perdure.testing.workers import StuckFunction

#: Where the public names live. They are fetched when they are asked for: every run of pytest imports this package.
_HOMES = {
    "Attempt": "perdure.testing.timeline",
    "Endpoint": "perdure.testing.scripted_http",
    "Entry": "perdure.testing.timeline",
    "NeverIdle": "perdure.testing.driver",
    "Sent": "perdure.testing.scripted_sender",
    "Simulation": "perdure.testing.simulation",
    "SimulationOptions": "perdure.testing.options",
    "StuckFunction": "perdure.testing.workers",
    "SubmittedTasks": "perdure.testing.simulation",
    "VirtualClock": "perdure.testing.clock",
}

__all__ = [
    "Attempt",
    "Endpoint",
    "Entry",
    "NeverIdle",
    "Sent",
    "Simulation",
    "SimulationOptions",
    "StuckFunction",
    "SubmittedTasks",
    "VirtualClock",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'perdure.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
