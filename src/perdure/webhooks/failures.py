"""Why no answer came: an error code for policies, and a sentence for people.

The sentences are made here and not taken from the HTTP library: its own hold the full URL, and with it the
handle.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

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


class ConnectionLost(aiohttp.ClientError):
    """The connection broke after it was made. Unlike its cause, this is not retried by the HTTP library."""


@dataclass(frozen=True, slots=True)
class Failure:
    code: str
    text: str


def explain(problem: Exception, where: str) -> Failure | None:
    """The failure behind an exception of the HTTP library; None if it is none that another side can cause.

    `where` is the other side as host:port. Timeouts are not explained here: only the caller knows its limits.
    """
    match problem:
        case ConnectionLost(__cause__=Exception() as cause):
            return _explain_lost(cause, where)
        case aiohttp.ClientConnectorError(os_error=BlockedAddress() as refusal):
            return Failure(BLOCKED_ADDRESS, _detail(str(refusal)))
        case aiohttp.ClientConnectorDNSError():
            reason = problem.os_error.strerror or str(problem.os_error)
            return Failure(DNS_ERROR, f"host name {problem.host} could not be resolved: {_detail(reason)}")
        case aiohttp.ClientSSLError():
            return Failure(TLS_ERROR, f"TLS with {where} failed: {_detail(str(problem.os_error))}")
        case aiohttp.ClientConnectorError():
            return _explain_unreachable(problem.os_error, where)
        case aiohttp.ClientPayloadError() | aiohttp.ClientResponseError():
            return _explain_answer(problem, where)
        case aiohttp.ClientConnectionError() | OSError():
            return _explain_lost(problem, where)
        case aiohttp.InvalidURL() | ValueError():
            reason = _detail(_reason(problem))
            return Failure(INVALID_REQUEST, f"the request to {where} cannot be written: {reason}")
    return None


def _explain_unreachable(problem: OSError, where: str) -> Failure:
    if problem.errno == errno.ECONNREFUSED:
        return Failure(CONNECTION_ERROR, f"connection refused by {where}")
    reason = os.strerror(problem.errno) if problem.errno else _detail(str(problem))
    return Failure(CONNECTION_ERROR, f"could not connect to {where}: {reason}")


def _explain_lost(problem: Exception, where: str) -> Failure:
    if isinstance(problem, OSError) and problem.errno in (errno.ECONNRESET, errno.EPIPE):
        return Failure(CONNECTION_ERROR, f"connection reset by {where}")
    if isinstance(problem, aiohttp.ServerDisconnectedError):
        return Failure(CONNECTION_ERROR, f"{where} closed the connection without an answer")
    return Failure(CONNECTION_ERROR, f"connection to {where} was lost")


def _explain_answer(problem: Exception, where: str) -> Failure:
    """For answers that cannot be read. What is wrong with them the library says in words only."""
    complaints = [cause.message for cause in _causes(problem) if isinstance(cause, HttpProcessingError)]
    complaint = complaints[-1] if complaints else "Not enough data"
    if complaint.startswith("Not enough data"):
        return Failure(CONNECTION_ERROR, f"connection to {where} was lost in the middle of the answer")
    if complaint.startswith(("Got more than", "Too many headers", "Too many trailers")):
        return Failure(TOO_LARGE, f"the headers of the answer from {where} are too large")
    return Failure(BAD_RESPONSE, f"{where} did not answer in HTTP: {_detail(complaint)}")


def _causes(problem: BaseException) -> Iterator[BaseException]:
    cause = problem.__cause__
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _reason(problem: Exception) -> str:
    return (problem.description or "invalid URL") if isinstance(problem, aiohttp.InvalidURL) else str(problem)


def _detail(text: str) -> str:
    return one_line(text, _DETAIL_LIMIT)
