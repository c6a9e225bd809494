"""The words of the table of endpoints, from which both the routing and the OpenAPI document are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from perdure.api.services import Handler
from perdure.api.shapes import ProblemDocument
from perdure.domain.states import LABELS, SHOWN

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    place: Literal["path", "query", "header"] = "query"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    description: str
    shape: Any = None
    """What the body is decoded to; None if there is no body."""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method of one path: who answers, and everything that the document says about it."""

    method: str
    path: str
    handler: Handler
    subject: str
    summary: str
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    body: Any = None
    body_required: bool = True
    answers: tuple[Answer, ...]


def problem(status: int, description: str) -> Answer:
    return Answer(status, description, ProblemDocument, "application/problem+json")


INVALID = problem(400, "The request breaks a rule; `details` says which. Nothing was changed.")
NO_TASK = problem(404, "There is no such task.")
NO_BATCH = problem(404, "There is no such batch.")
TOO_LARGE = problem(413, "The body is too large.")
CONFLICT = problem(409, "The task's state does not allow it; `task_status` and `task_attempt` say what it is.")
UNAVAILABLE = problem(503, "The database does not answer, or the server is stopping; try again.")
FAILED = problem(500, "Something went wrong on the server's side.")

UUID = {"type": "string", "format": "uuid"}
ID = Parameter("id", "The id that the server gave.", UUID, "path")
STATUS = Parameter(
    "status",
    "Shown statuses; several times, or separated by commas, for any of them.",
    {"type": "array", "items": {"type": "string", "enum": [LABELS[value] for value in SHOWN]}},
)
PAGE = Parameter("page", "Number of the page, from 0; a negative one is 0.", {"type": "integer", "default": 0})
PAGE_SIZE = Parameter(
    "page_size", "Entries a page, at most 100; 0 and less are 50.", {"type": "integer", "default": 50}
)
TIME = {"type": "string", "format": "date-time"}
