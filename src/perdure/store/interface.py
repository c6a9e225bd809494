"""What the engine asks of a database. Everything else is a verb: a function of a session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypeVar

from perdure.store.changes import Changes, Row
from perdure.store.statements import Dialect

Result = TypeVar("Result")
#: The topic of a hint that does not say where to look.
EVERYTHING = "everything"
QueryListener = Callable[[str, float], None]
CommitListener = Callable[[Changes], None]


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What the verbs need to know of the configuration."""

    instance: str
    dead_ends: bool = True
    cancel_on_timeout: bool = True
    history_max_attempts: int = 100


class Session(ABC):
    """One transaction. Its methods never wait for anything but the database."""

    dialect: ClassVar[Dialect]

    def __init__(self, now: datetime, options: StoreOptions) -> None:
        self.now = now
        self.options = options
        self.changes = Changes(now)

    @abstractmethod
    async def fetch(self, name: str, rows: Sequence[Sequence[Any]] | None = None, /, **parameters: Any) -> list[Row]:
        """Run a named statement; `rows` are its input rows, if it takes any."""

    @abstractmethod
    async def query(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        """Run a query that was put together from fixed parts, with `?` for each parameter."""

    @abstractmethod
    async def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add rows to a table, as fast as the database can."""


Work = Callable[[Session], Awaitable[Result]]


class Store(Protocol):
    """A database: transactions, reading, and word of what others did."""

    def on_commit(self, listener: CommitListener) -> None:
        """Tell `listener` what each committed transaction of this instance changed."""

    def on_query(self, listener: QueryListener) -> None:
        """Tell `listener` the name and duration in seconds of each statement."""

    async def open(self) -> None:
        """Connect and make sure that the schema is the one this version works with."""

    async def close(self) -> None: ...

    async def write(self, work: Work[Result], *, apart: bool = False) -> Result:
        """Run `work` in one transaction; its changes are recorded with it. Lost races are run again.

        `apart` is for what must not wait until others are done with their connections: heartbeats.
        """
        ...

    async def read(self, work: Work[Result]) -> Result:
        """Run `work` on a consistent view without writing."""
        ...

    async def write_within(self, connection: Any, work: Work[Result], topics: Sequence[str]) -> Result:
        """Run `work` in the transaction that is open on the caller's own connection to this database.

        Once it is committed, other instances hear that there is something to look at.
        """
        ...

    def write_within_blocking(self, connection: Any, work: Work[Result]) -> Result:
        """The same for plain code, in the thread that asks; raises TypeError where that cannot be."""
        ...

    async def announce(self, topics: Sequence[str]) -> None:
        """Hint to the other instances that there is something to look at."""

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Pass on the hints of other instances until cancelled."""

    async def measure_clock(self) -> None:
        """Compare our clock with the database's, whose time decides."""
