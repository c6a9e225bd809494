"""How requests get to a server and answers back: what every way of carrying them has in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from perdure.client.errors import Unreachable

#: Servers close connections that nobody uses; one that rested longer than this is not trusted any more.
LONGEST_REST_SECS = 2.0


@dataclass(frozen=True, slots=True)
class Request:
    """What a transport carries to the server."""

    method: str
    target: str
    """Path and query, as they stand in the request line."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float | None = None
    """Seconds within which an answer is of use; None: as long as the transport usually waits."""


@dataclass(frozen=True, slots=True)
class Response:
    """What a transport brings back."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes


class Transport(Protocol):
    """Carries requests. Raises `Unreachable` if no answer comes."""

    async def send(self, request: Request) -> Response:
        """Ask once, and return the answer, whatever its status."""

    async def pause(self, seconds: float) -> None:
        """Wait before asking again."""

    async def close(self) -> None:
        """Let go of the connections."""


def not_connected(url: str, error: BaseException) -> Unreachable:
    """No connection was made, so nothing was done."""
    return Unreachable(f"{url} cannot be reached: {_reason(error)}. Is the server running, and is this its address?")


def not_answered(url: str, request: Request, error: BaseException) -> Unreachable:
    """The request left, and then nothing came back."""
    advice = "" if request.method == "GET" else " It is not known whether it was done: look before you repeat it."
    path = request.target.partition("?")[0]
    return Unreachable(f"{url} gave no answer to {request.method} {path}: {_reason(error)}.{advice}", sent=True)


def limit(timeout: float, request: Request) -> float:
    """Seconds for which the server may be silent."""
    return timeout if request.timeout is None else min(timeout, request.timeout)


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
