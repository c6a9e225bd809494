"""What the package offers: its names, and an operation for everything that a server can be asked."""

from __future__ import annotations

import inspect
import re
from contextlib import suppress
from typing import Any

import pytest

import perdure.client
from perdure.api.app import ENDPOINTS
from perdure.client import AsyncClient, Client, ClientError, Request, Response

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
#: What the operations that need more than ids are called with.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "submit": {"tasks": []},
    "preview": {"policy": "gentle"},
    "change_rules": {"kind": "etl", "rules": []},
}
#: Asked by programs that watch over a server, or read by people.
NOT_ASKED = {"GET /ready", "GET /metrics", "GET /openapi.json", "GET /docs"}
#: The array that `POST /batch` wraps.
OTHER_FORM = {"POST /task"}
NO_OPERATION = {"close"}


class Noting:
    """A transport that only notes what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def send(self, request: Request) -> Response:
        self.asked.append(f"{request.method} {request.target.partition('?')[0]}")
        return Response(200, {}, b"no answer")

    async def pause(self, seconds: float) -> None:
        raise AssertionError(f"nobody asked to wait for {seconds} s")

    async def close(self) -> None:
        pass


def operations() -> dict[str, Any]:
    members = inspect.getmembers(AsyncClient, inspect.isfunction)
    return {name: member for name, member in members if not name.startswith("_") and name not in NO_OPERATION}


def test_both_clients_know_the_same_operations() -> None:
    for name, operation in operations().items():
        plain, awaited = inspect.signature(getattr(Client, name)), inspect.signature(operation)
        assert list(plain.parameters.values()) == list(awaited.parameters.values()), name


async def test_there_is_an_operation_for_every_endpoint() -> None:
    noting = Noting()
    client = AsyncClient(transport=noting)
    for name, operation in operations().items():
        needed = {
            parameter.name: ID
            for parameter in inspect.signature(operation).parameters.values()
            if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        }
        del needed["self"]
        answer = getattr(client, name)(**{**needed, **ARGUMENTS.get(name, {})})
        with suppress(ClientError):  # what is asked is looked at here, not what is made of the answer
            await anext(answer) if inspect.isasyncgen(answer) else await answer

    asked = {path.replace(ID, "{}") for path in noting.asked}
    served = {f"{endpoint.method} {re.sub(r'{[^}]*}', '{}', endpoint.path)}" for endpoint in ENDPOINTS}
    assert asked == served - NOT_ASKED - OTHER_FORM


def test_the_public_names_are_these() -> None:
    assert perdure.client.__all__ == [
        "AsyncClient",
        "Attempt",
        "Batch",
        "BatchSummary",
        "Client",
        "ClientError",
        "ConflictError",
        "Dag",
        "Delivery",
        "ErrorEntry",
        "Event",
        "Health",
        "InvalidRequest",
        "Link",
        "NotFoundError",
        "Pause",
        "PlannedRetry",
        "Preview",
        "Refused",
        "Request",
        "Response",
        "RetrySchedule",
        "RetryStats",
        "ShortTask",
        "Stopped",
        "StrategyStats",
        "Submitted",
        "Task",
        "TimedOut",
        "Transport",
        "Unavailable",
        "UnexpectedAnswer",
        "Unreachable",
    ]
    assert all(getattr(perdure.client, name).__name__ == name for name in perdure.client.__all__)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://host", "http://", "http://host:x", "http://h/a b", "http://h?a=1"]
)
@pytest.mark.parametrize("kind", [AsyncClient, Client])
def test_what_is_no_address_is_refused_at_once(kind: type[AsyncClient | Client], url: str) -> None:
    with pytest.raises(ClientError, match="must look like http://"):
        kind(url)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ClientError, match="token=") as refused:
        Client("http://me:secret@127.0.0.1:8000")
    assert "secret" not in str(refused.value)


def test_a_token_with_a_line_break_is_refused_and_not_repeated() -> None:
    with pytest.raises(ClientError, match="token") as refused:
        Client(token="secret\nX-Other: 1")
    assert "secret" not in str(refused.value)


def test_without_an_address_the_environment_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_URL", "nowhere")
    with pytest.raises(ClientError, match="nowhere"):
        Client()
    monkeypatch.delenv("PERDURE_URL")
    Client().close()
