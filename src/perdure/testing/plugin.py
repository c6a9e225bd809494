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
    """Options of the simulation: override this fixture to set a seed, settings, or another database."""
    return {}


@pytest.fixture
def sim(tmp_path: Path, sim_options: SimulationOptions) -> Iterator[Simulation]:
    """The real engine on a virtual clock, with scripted receivers."""
    from perdure.testing.simulation import Simulation

    options: SimulationOptions = {"database_url": f"sqlite:///{tmp_path}/simulation.db", **sim_options}
    simulation = Simulation(**options)
    yield simulation
    simulation.close_after_test()
