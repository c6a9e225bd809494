"""Fixtures for pytest, there wherever perdure is installed.

It is imported by every run of pytest, so it imports nothing itself until a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from perdure.testing.options import SimulationOptions
    from perdure.testing.simulation import Simulation


@pytest.fixture
def sim_options() -> SimulationOptions:
    """Options of the simulation: override this fixture to set a seed, a beginning or settings."""
    return {}


@pytest.fixture
def sim(tmp_path: Path, sim_options: SimulationOptions) -> Iterator[Simulation]:
    """The real engine on a virtual clock, with scripted receivers."""
    from perdure.testing.simulation import Simulation

    # Not async, so that any runner of async tests will do. That is why it has to be a file: a connection to a server
    # could not be closed once the event loop of the test is gone.
    simulation = Simulation(f"sqlite:///{tmp_path}/simulation.db", **sim_options)
    yield simulation
    simulation.close_after_test()
