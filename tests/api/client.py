"""A client that talks to the application without a network, and checks what every answer must have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlencode

from starlette.types import ASGIApp, Message, Scope

ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def details(self) -> list[str]:
        """The broken rules that a refusal names."""
        found: list[str] = self.json["details"]
        return found


class Client:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def get(self, path: str, **query: Any) -> Answered:
        return await self.request("GET", path, query=query)

    async def post(
        self, path: str, value: Any = ABSENT, *, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answered:
        return await self.request("POST", path, value, body=body, headers=headers)

    async def patch(self, path: str, value: Any = ABSENT, **query: Any) -> Answered:
        return await self.request("PATCH", path, value, query=query)

    async def put(self, path: str, value: Any = ABSENT) -> Answered:
        return await self.request("PUT", path, value)

    async def delete(self, path: str) -> Answered:
        return await self.request("DELETE", path)

    async def request(
        self,
        method: str,
        path: str,
        value: Any = ABSENT,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
        chunks: Sequence[bytes] | None = None,
    ) -> Answered:
        """`value` is sent as JSON, `body` as it is, `chunks` in pieces without saying how many."""
        sent = dict(headers or {})
        if value is not ABSENT:
            body = json.dumps(value).encode()
        if chunks is None:
            chunks = [body]
            sent.setdefault("Content-Length", str(len(body)))
        scope = _scope(method, path, sent, urlencode(query or {}, doseq=True))
        answered = await _exchange(self._app, scope, chunks)
        _check(method, answered)
        return answered


def _scope(method: str, path: str, headers: Mapping[str, str], query: str) -> Scope:
    path, _, rest = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": "&".join(part for part in (rest, query) if part).encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }


async def _exchange(app: ASGIApp, scope: Scope, chunks: Sequence[bytes]) -> Answered:
    waiting = list(chunks)
    started: list[Message] = []
    body: list[bytes] = []

    async def receive() -> Message:
        if not waiting:
            return {"type": "http.disconnect"}
        part = waiting.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(waiting)}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            started.append(message)
        else:
            body.append(message.get("body", b""))

    await app(scope, receive, send)
    (start,) = started
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
    return Answered(start["status"], headers, b"".join(body))


def _check(method: str, answered: Answered) -> None:
    """What holds for every answer, whatever was asked."""
    headers = answered.headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    content_type = headers.get("content-type", "")
    if content_type.startswith("text/html"):
        assert "default-src 'none'" in headers["content-security-policy"]
    if method == "HEAD" or answered.status in (202, 204):
        assert answered.body == b""
        return
    assert content_type, "an answer with a body says what it is"
    if answered.status >= 400 and content_type != "application/json":
        assert content_type == "application/problem+json"
        problem = answered.json
        assert problem["status"] == answered.status
        assert all(problem[member] for member in ("type", "title", "detail", "error"))
        assert ("details" in problem) == (answered.status == 400)
        assert "Traceback" not in problem["detail"]
