"""Why no answer came: an error code for policies, and a sentence for people.

The sentences are made here, of the other side's host and port alone: the full URL holds the handle.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from perdure.webhooks.guard import BlockedAddress
from perdure.webhooks.one_line import one_line

CONNECTION_ERROR = "connection_error"
DNS_ERROR = "dns_error"
TLS_ERROR = "tls_error"
CONNECT_TIMEOUT = "connect_timeout"
READ_TIMEOUT = "read_timeout"
#: The guard refused the host or an address that its name led to.
BLOCKED_ADDRESS = "blocked_address"
#: What came back is not HTTP.
BAD_RESPONSE = "bad_response"
#: The answer's status line or headers are over the limits.
TOO_LARGE = "too_large"
#: The request itself cannot be sent, now or later.
INVALID_REQUEST = "invalid_request"
#: Neither side's known fault; the log has the details.
UNEXPECTED_ERROR = "unexpected_error"

ERROR_CODES = frozenset(
    {
        CONNECTION_ERROR,
        DNS_ERROR,
        TLS_ERROR,
        CONNECT_TIMEOUT,
        READ_TIMEOUT,
        BLOCKED_ADDRESS,
        BAD_RESPONSE,
        TOO_LARGE,
        INVALID_REQUEST,
        UNEXPECTED_ERROR,
    }
)

_DETAIL_LIMIT = 200


class NameNotFound(Exception):
    """The host name led to no address."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(host, reason)
        self.host = host
        self.reason = reason


class Unreachable(Exception):
    """No connection could be made."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(cause)
        self.cause = cause


class TlsFailed(Exception):
    """The other side is not who it should be, or does not speak TLS."""


class ConnectionLost(Exception):
    """The connection ended before the answer was complete. Without a cause, the other side closed it in order."""

    def __init__(self, cause: Exception | None = None, *, in_answer: bool = False) -> None:
        super().__init__(cause)
        self.cause = cause
        #: The answer had begun.
        self.in_answer = in_answer


class BadAnswer(Exception):
    """What came back is not HTTP; the message says why."""


class AnswerTooLarge(Exception):
    """The answer's status line or headers are over the limits."""


@dataclass(frozen=True, slots=True)
class Failure:
    code: str
    text: str


def explain(problem: Exception, where: str) -> Failure | None:
    """The failure behind an exception of a call; None if it is none that another side can cause.

    `where` is the other side as host:port. Timeouts are not explained here: only the caller knows its limits.
    """
    match problem:
        case BlockedAddress():
            return Failure(BLOCKED_ADDRESS, _detail(str(problem)))
        case NameNotFound():
            return Failure(DNS_ERROR, f"host name {problem.host} could not be resolved: {_detail(problem.reason)}")
        case TlsFailed():
            return Failure(TLS_ERROR, f"TLS with {where} failed: {_detail(str(problem))}")
        case Unreachable():
            return _explain_unreachable(problem.cause, where)
        case ConnectionLost():
            return Failure(CONNECTION_ERROR, _describe_loss(problem, where))
        case AnswerTooLarge():
            return Failure(TOO_LARGE, f"the headers of the answer from {where} are too large")
        case BadAnswer():
            return Failure(BAD_RESPONSE, f"{where} did not answer in HTTP: {_detail(str(problem))}")
        case ValueError():
            return Failure(INVALID_REQUEST, f"the request to {where} cannot be written: {_detail(str(problem))}")
    return None


def _explain_unreachable(problem: OSError, where: str) -> Failure:
    if problem.errno == errno.ECONNREFUSED:
        return Failure(CONNECTION_ERROR, f"connection refused by {where}")
    reason = os.strerror(problem.errno) if problem.errno else _detail(str(problem))
    return Failure(CONNECTION_ERROR, f"could not connect to {where}: {reason}")


def _describe_loss(lost: ConnectionLost, where: str) -> str:
    if lost.in_answer:
        return f"connection to {where} was lost in the middle of the answer"
    if lost.cause is None:
        return f"{where} closed the connection without an answer"
    if isinstance(lost.cause, OSError) and lost.cause.errno in (errno.ECONNRESET, errno.EPIPE):
        return f"connection reset by {where}"
    return f"connection to {where} was lost"


def _detail(text: str) -> str:
    return one_line(text, _DETAIL_LIMIT)
