"""What can go wrong between a client and a server.

ClientError
├── Refused             the server said no: `status`, `problem` and `details` say why
│   ├── InvalidRequest  the request breaks a rule
│   ├── NotFoundError   there is no such thing
│   ├── ConflictError   it does not fit the state of the task: `task_status`, `task_attempt`
│   └── Unavailable     it cannot do it now, and could not when it was asked again
├── Unreachable         no answer came, however often it was asked
├── UnexpectedAnswer    what answered does not speak as a server of ours does
└── TimedOut            it did not end within the time that was given
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: So many details are shown in a traceback; `details` has all.
SHOWN_DETAILS = 20


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
        for detail in self.details[:SHOWN_DETAILS]:
            self.add_note(f"- {detail}")


class InvalidRequest(Refused):
    """The request breaks a rule; nothing was done."""


class NotFoundError(Refused):
    """There is no such thing."""


class ConflictError(Refused):
    """The request does not fit the state of the task."""

    @property
    def task_status(self) -> str | None:
        """The status of the task that was in the way."""
        return self.problem.get("task_status")

    @property
    def task_attempt(self) -> int | None:
        """The attempt of the task that was in the way."""
        return self.problem.get("task_attempt")


class Unavailable(Refused):
    """The server cannot do it now; ask again later."""


class Unreachable(ClientError):
    """No answer came. `sent` says whether the request may have arrived."""

    def __init__(self, message: str, *, sent: bool = False) -> None:
        self.sent = sent
        super().__init__(message)


class UnexpectedAnswer(ClientError):
    """What answered does not speak as a server of ours does."""


class TimedOut(ClientError, TimeoutError):
    """It did not end within the time that was given."""


_KINDS: Mapping[int, type[Refused]] = {
    400: InvalidRequest,
    404: NotFoundError,
    409: ConflictError,
    413: InvalidRequest,
    422: InvalidRequest,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def refusal(status: int, problem: Mapping[str, Any]) -> Refused:
    """The error that an answer with this status is."""
    return _KINDS.get(status, Refused)(status, problem)


def invalid(detail: str) -> InvalidRequest:
    """What a server would say to a request that cannot even be sent."""
    title = "The request is invalid"
    problem = {
        "type": "urn:perdure:problem:invalid",
        "title": title,
        "status": 400,
        "detail": f"Nothing was sent. {detail}",
        "error": title,
        "details": [detail],
    }
    return InvalidRequest(400, problem)
