"""Everything that can be refused, as one tree.

PerdureError
├── Invalid                 the request breaks a rule: says all broken rules at once
├── NotFound                no such task or batch
├── Conflict                the request came too late, or against the state of things
│   ├── NotRunning          the task is not in a state that takes this
│   ├── StaleAttempt        a report from an attempt that is over
│   └── StillProcessing     the same idempotency key is being processed right now
├── KeyReused               an idempotency key came back with another body
├── Duplicate               the task repeats one that exists, by its dedupe_strategy: nothing was created
├── SchemaMismatch          the database belongs to another version
└── Unavailable             the database does not answer, or the server is shutting down
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure.domain.states import Status


class PerdureError(Exception):
    """Something perdure refuses or cannot do."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule: where, and what to do about it."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


SHOWN_PROBLEMS = 20


class Invalid(PerdureError):
    """The request breaks one or more rules; nothing was done."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(str(problem) for problem in problems[:SHOWN_PROBLEMS]))


class NotFound(PerdureError):
    """There is no such thing."""

    def __init__(self, thing: str, id: str) -> None:
        self.thing = thing
        self.id = id
        super().__init__(f"There is no {thing} {id}.")


class Conflict(PerdureError):
    """The request does not fit the state that the task is in."""

    def __init__(self, message: str, status_label: str | None = None, attempt: int | None = None) -> None:
        self.status_label = status_label
        self.attempt = attempt
        super().__init__(message)


class NotRunning(Conflict):
    """The task is not in a state that takes this."""


class StaleAttempt(Conflict):
    """The report belongs to an attempt that is over."""


class StillProcessing(Conflict):
    """A request with this idempotency key is being processed; try again in a moment."""


class KeyReused(PerdureError):
    """This idempotency key was used before with another body; use a new key for a new request."""


class Duplicate(PerdureError):
    """The task repeats one that exists, by its dedupe_strategy; no other one was created."""


class SchemaMismatch(PerdureError):
    """The database's schema is not the one that this version works with."""


class Unavailable(PerdureError):
    """The database does not answer right now, or the server is shutting down."""


def shown_label(status: Status, paused: bool) -> str:
    """What people see as the status of a task."""
    return "Paused" if paused and status.is_live else status.label
