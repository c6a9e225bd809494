"""What a task's function is told about the task, and how it says that it is alive."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, overload

import msgspec

from perdure.domain.errors import PerdureError
from perdure.domain.keys import Trigger, idempotency_key
from perdure.domain.states import Status
from perdure.store.changes import Row
from perdure.store.verbs.work import Sign

log = logging.getLogger("perdure.task")

MOST_COUNTED = 2**63 - 1

Result = TypeVar("Result", covariant=True)


class Canceled(Exception):
    """The task was canceled, timed out, or taken away from this worker; nobody waits for its result."""


class NoResult(PerdureError, LookupError):
    """There is no such parent, it did not succeed, or its result is not what its function returns now."""


class Kind(Protocol[Result]):
    """A task's function, as a way to name a parent and to read its result."""

    @property
    def kind(self) -> str: ...
    @property
    def key(self) -> str | None: ...

    def read_result(self, value: Any) -> Result: ...


class TaskLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds the task to every line."""

    def process(self, message: Any, given: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        extra = dict(given.get("extra") or {})
        extra["fields"] = {**(self.extra or {}), **extra.get("fields", {})}
        return message, {**given, "extra": extra}


@dataclass(slots=True)
class Context:
    """One attempt of a task, for the function that runs it. Every method may be called from any thread."""

    task_id: str
    batch_id: str
    kind: str
    name: str
    attempt: int
    """0 for the first, one more for every further execution, whatever caused it."""
    parents: Sequence[Row] = ()
    _sign: Callable[[Sign], None] = field(default=lambda _: None, repr=False)
    _stopped: bool = field(default=False, repr=False)
    _heard: bool = field(default=False, repr=False)
    """Whether the function knows that it was stopped: what it returns then is not the whole of it."""
    _done: int | None = field(default=None, repr=False)
    _total: int | None = field(default=None, repr=False)

    @property
    def idempotency_key(self) -> str:
        """Names this attempt: the same after a crash, another one for each retry. `task_id` is the same in all."""
        return idempotency_key(self.task_id, Trigger.START, self.attempt)

    @property
    def log(self) -> TaskLogger:
        """A logger whose lines name the task."""
        fields: Mapping[str, object] = {
            "task": self.task_id,
            "kind": self.kind,
            "name": self.name,
            "attempt": self.attempt,
        }
        return TaskLogger(log, fields)

    @property
    def canceled(self) -> bool:
        """Whether the result is no longer wanted. Async functions are cancelled besides."""
        self._heard = self._stopped
        return self._stopped

    @property
    def _last_sign(self) -> Sign | None:
        """How far the work was when it was last said, if it was."""
        if self._done is None and self._total is None:
            return None
        return Sign(self.task_id, self.attempt, self._done, self._total)

    def raise_if_canceled(self) -> None:
        """For functions in threads, which nobody can interrupt: call it between steps."""
        if self.canceled:
            raise Canceled(Canceled.__doc__)

    def heartbeat(self) -> None:
        """Say that the work goes on: the task's timeout begins afresh."""
        self._sign(Sign(self.task_id, self.attempt, self._done, self._total))

    def progress(self, done: int, total: int | None = None) -> None:
        """Say how far the work is; a sign of life as well."""
        counts: tuple[object, ...] = (done,) if total is None else (done, total)
        for count in counts:
            if not isinstance(count, int) or not 0 <= count <= MOST_COUNTED:
                raise ValueError(f"progress is counted in whole numbers from zero, not {count!r}")
        self._done = done
        self._total = self._total if total is None else total
        self.heartbeat()

    @overload
    def result_of(self, parent: str) -> Any: ...
    @overload
    def result_of(self, parent: Kind[Result]) -> Result: ...
    def result_of(self, parent: str | Kind[Any]) -> Any:
        """What a parent returned: by its key in the batch, or by its function if only one parent is of that kind.

        Raises NoResult if there is no such parent, if it did not succeed, or if its result is not what the function
        returns now.
        """
        key = parent if isinstance(parent, str) else parent.key
        column, wanted = ("kind", parent.kind) if not isinstance(parent, str) and key is None else ("key", key)
        found = [row for row in self.parents if row[column] == wanted]
        if len(found) != 1:
            known = ", ".join(repr(row["key"]) for row in self.parents) or "none"
            raise NoResult(f"{len(found) or 'no'} parents have the {column} {wanted!r}; the parents' keys are: {known}")
        (row,) = found
        if row["status"] != Status.SUCCESS:
            raise NoResult(f"the parent {row['key']!r} has no result: it is {Status(row['status']).label}")
        value = None if row["result"] is None else msgspec.json.decode(row["result"])
        return value if isinstance(parent, str) else parent.read_result(value)
