"""What can be said about a simulation."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from perdure.config import Settings


class SimulationOptions(TypedDict, total=False):
    """Each as `Simulation` takes it."""

    seed: int
    start: datetime
    settings: Settings
    patience_secs: float
