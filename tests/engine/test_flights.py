"""Places for calls: taken until the answer is there, however long it takes to write that down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from perdure.engine.flights import MOST_UNWRITTEN, Flight, Flights

LIMIT, PER_DESTINATION = 4, 3


@dataclass(slots=True)
class Calls:
    """Calls that are answered, and written down, when the test says so."""

    answered: asyncio.Event = field(default_factory=asyncio.Event)
    written: asyncio.Event = field(default_factory=asyncio.Event)
    in_flight: int = 0
    woken: int = 0

    async def call(self, flight: Flight) -> None:
        await self.answered.wait()
        flight.land()
        await self.written.wait()

    def count(self, change: int) -> None:
        self.in_flight += change

    def wake(self) -> None:
        self.woken += 1


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
async def flights(calls: Calls) -> AsyncIterator[Flights]:
    flights = Flights(LIMIT, PER_DESTINATION, 0, calls.wake, calls.count)
    yield flights
    await flights.drain()


async def test_a_place_is_free_once_the_answer_is_there(flights: Flights, calls: Calls) -> None:
    for name in ("a", "a", "a", "b"):
        flights.launch(calls.call, name, name)
    assert (flights.free, dict(flights.busy), calls.in_flight) == (0, {"a": 3, "b": 1}, 4)

    calls.answered.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert (flights.free, dict(flights.busy), calls.in_flight, len(flights)) == (4, {}, 0, 4)
    assert calls.woken > 0
    calls.written.set()
    await flights.settled()
    assert (flights.free, calls.in_flight, len(flights)) == (4, 0, 0)


async def test_a_full_destination_wakes_those_who_wait_for_a_place_there(flights: Flights, calls: Calls) -> None:
    for _ in range(PER_DESTINATION):
        flights.launch(calls.call, "call", "a")
    assert flights.free == 1

    calls.answered.set()
    calls.written.set()
    await flights.settled()

    assert calls.woken > 0


async def test_nobody_is_woken_while_there_were_places(flights: Flights, calls: Calls) -> None:
    flights.launch(calls.call, "call", "a")
    calls.answered.set()
    calls.written.set()
    await flights.settled()

    assert calls.woken == 0


async def test_answers_that_nobody_writes_down_stop_the_calls(flights: Flights, calls: Calls) -> None:
    calls.answered.set()
    for number in range(MOST_UNWRITTEN * LIMIT):
        assert flights.free > 0
        flights.launch(calls.call, "call", str(number))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert flights.free == 0
    calls.written.set()
    await flights.settled()
    assert flights.free == LIMIT
    assert calls.woken > 0
