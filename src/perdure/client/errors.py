"""What can go wrong between a client and a server.

ClientError
├── Refused             the server said no: `status`, `problem` and `details` say why
│   ├── InvalidRequest  the request breaks a rule
│   ├── NotFoundError   there is no such thing
│   └── ConflictError   it does not fit the state of the task: `task_status`, `task_attempt`
├── Unreachable         no answer came, however often it was asked
└── TimedOut            it did not end within the time that was given
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ClientError(Exception):
    """Something that a client could not do."""


class Refused(ClientError):
    """The server said no."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = dict(problem)
        self.details: list[str] = [str(detail) for detail in problem.get("details") or ()]
        said = problem.get("detail") or problem.get("error") or problem.get("title") or "no reason given"
        super().__init__(f"{said} (HTTP {status})" if not problem.get("detail") else str(said))


class InvalidRequest(Refused):
    """The request breaks a rule; nothing was done."""


class NotFoundError(Refused):
    """There is no such thing."""


class ConflictError(Refused):
    """The request does not fit the state of the task."""

    @property
    def task_status(self) -> str | None:
        return self.problem.get("task_status")

    @property
    def task_attempt(self) -> int | None:
        return self.problem.get("task_attempt")


class Unreachable(ClientError):
    """No answer came. `sent` says whether the request may have arrived."""

    def __init__(self, message: str, *, sent: bool = False) -> None:
        self.sent = sent
        super().__init__(message)


class TimedOut(ClientError):
    """It did not end within the time that was given."""


def refusal(status: int, problem: Mapping[str, Any]) -> Refused:
    kinds = {400: InvalidRequest, 413: InvalidRequest, 422: InvalidRequest, 404: NotFoundError, 409: ConflictError}
    return kinds.get(status, Refused)(status, problem)
