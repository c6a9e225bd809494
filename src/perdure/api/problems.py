"""The one place that turns errors into answers: RFC 9457 problem documents."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus

from msgspec import UNSET
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from perdure.api.answers import encode
from perdure.api.shapes import ProblemDocument
from perdure.domain.errors import (
    Conflict,
    Invalid,
    KeyReused,
    NotFound,
    NotRunning,
    PerdureError,
    SchemaMismatch,
    StaleAttempt,
    StillProcessing,
    Unavailable,
)

log = logging.getLogger("perdure.api")

CONTENT_TYPE = "application/problem+json"
MOST_DETAILS = 1_000
LONGEST_DETAIL = 1_000

#: Status, name in the type's URI, and title of each error; the most special one that fits counts.
_KINDS: Mapping[type[Exception], tuple[int, str, str]] = {
    Invalid: (400, "invalid", "The request is invalid"),
    NotFound: (404, "not-found", "Not found"),
    NotRunning: (409, "not-running", "The task does not take this now"),
    StaleAttempt: (409, "stale-attempt", "The attempt is over"),
    StillProcessing: (409, "still-processing", "Still being processed"),
    Conflict: (409, "conflict", "Conflict"),
    KeyReused: (422, "key-reused", "Idempotency-Key used before with another request"),
    SchemaMismatch: (503, "unavailable", "Not available right now"),
    Unavailable: (503, "unavailable", "Not available right now"),
}


def answer_problem(error: Exception, request: Request, batch_id: str | None = None) -> Response:
    """The answer to a request that raised `error`; `batch_id` names the submission that was refused."""
    if isinstance(error, HTTPException):
        return _answer(_of_status(error.status_code, error.detail), error.headers)
    kind = next((_KINDS[type_] for type_ in type(error).__mro__ if type_ in _KINDS), None)
    if kind is None:
        log.error(
            "a request failed unexpectedly; it was answered with 500",
            exc_info=error,
            extra={"fields": {"method": request.method, "path": request.scope["path"]}},
        )
        return _answer(_of_status(500, "Something went wrong on our side; the server's log says what."))
    assert isinstance(error, PerdureError)
    document = _document(kind, error)
    if batch_id is not None:
        document.batch_id = batch_id
    return _answer(document, {"Retry-After": "1"} if document.status == 503 else None)


def _document(kind: tuple[int, str, str], error: PerdureError) -> ProblemDocument:
    status, name, title = kind
    document = ProblemDocument(f"urn:perdure:problem:{name}", title, status, str(error)[:LONGEST_DETAIL], title)
    if isinstance(error, Invalid):
        document.details = _details(error)
        document.detail = _summary(document.details[0], len(error.problems))
    elif isinstance(error, Conflict):
        document.task_status = UNSET if error.status_label is None else error.status_label
        document.task_attempt = UNSET if error.attempt is None else error.attempt
    return document


def _details(error: Invalid) -> list[str]:
    details = [str(problem)[:LONGEST_DETAIL] for problem in error.problems[:MOST_DETAILS]]
    if len(error.problems) > MOST_DETAILS:
        details.append(f"… and {len(error.problems) - MOST_DETAILS} more")
    return details


def _summary(first: str, count: int) -> str:
    others = f" (and {count - 1} more; see details)" if count > 1 else ""
    return f"Nothing was changed. {first[:LONGEST_DETAIL]}{others}"


def _of_status(status: int, detail: str) -> ProblemDocument:
    """A problem of HTTP itself, which has no type of its own."""
    title = HTTPStatus(status).phrase
    return ProblemDocument("about:blank", title, status, detail, title)


def _answer(document: ProblemDocument, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode(document), document.status, headers, CONTENT_TYPE)
