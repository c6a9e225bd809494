"""Open connections: those that rest between two requests, and those under way."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict

from perdure.webhooks.connecting import Connector
from perdure.webhooks.connection import Connection
from perdure.webhooks.failures import ConnectionLost
from perdure.webhooks.target import Target

#: Below the 5 s after which many servers drop an idle connection: ours is given up before theirs is.
_LONGEST_REST_SECS = 4.0


class Pool:
    """Belongs to the running event loop. At most `limit` connections rest in it."""

    def __init__(self, connector: Connector, limit: int) -> None:
        self._connector = connector
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._open: set[Connection] = set()
        #: Since when each rests, the longest first.
        self._resting: OrderedDict[Connection, float] = OrderedDict()
        self._by_destination: defaultdict[str, list[Connection]] = defaultdict(list)
        self._sweeping: asyncio.TimerHandle | None = None
        self._closing: asyncio.Event | None = None

    def take(self, destination: str) -> Connection | None:
        """The connection that has rested for the shortest time, if there is one to write to."""
        while connections := self._by_destination.get(destination):
            connection = connections[-1]
            too_old = self._resting[connection] + _LONGEST_REST_SECS <= self._loop.time()
            self._withdraw(connection)
            if connection.usable and not too_old:
                return connection
            connection.drop()
        return None

    async def connect(self, target: Target, deadline: float) -> Connection:
        """A new connection. Raises what the connector does."""
        connection = Connection(target.destination, self._forget)
        await self._connector.connect(target, connection, deadline)
        if self._closing is not None:
            connection.drop()
            raise ConnectionLost(ConnectionAbortedError())
        if connection.usable:
            self._open.add(connection)
        return connection

    def give_back(self, connection: Connection) -> None:
        """Lets it rest until the next request; one that cannot serve again is let go."""
        if not connection.usable:
            return
        self._resting[connection] = self._loop.time()
        self._by_destination[connection.destination].append(connection)
        if len(self._resting) > self._limit:
            self._drop_longest_resting()
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(_LONGEST_REST_SECS, self._sweep)

    async def close(self) -> None:
        """Drops all connections, and returns when nothing is left of them."""
        self._closing = asyncio.Event()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in tuple(self._open):
            connection.drop()
        if self._open:
            await self._closing.wait()
        await self._connector.close()

    def _withdraw(self, connection: Connection) -> None:
        del self._resting[connection]
        connections = self._by_destination[connection.destination]
        connections.remove(connection)
        if not connections:
            del self._by_destination[connection.destination]

    def _drop_longest_resting(self) -> None:
        connection = next(iter(self._resting))
        self._withdraw(connection)
        connection.drop()

    def _sweep(self) -> None:
        self._sweeping = None
        now = self._loop.time()
        while self._resting:
            rests_until = next(iter(self._resting.values())) + _LONGEST_REST_SECS
            if rests_until > now:
                self._sweeping = self._loop.call_at(rests_until, self._sweep)
                return
            self._drop_longest_resting()

    def _forget(self, connection: Connection) -> None:
        """It is lost."""
        self._open.discard(connection)
        if connection in self._resting:
            self._withdraw(connection)
        if self._closing is not None and not self._open:
            self._closing.set()
