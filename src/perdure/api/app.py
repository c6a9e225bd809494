"""The application: routes from the table of endpoints, and what every answer has in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uuid_utils import uuid7

from perdure.api.endpoints import Endpoint
from perdure.api.problems import answer_problem
from perdure.api.routes import batches, dag, deliveries, health, listings, pauses, retries, submissions, tasks
from perdure.api.routes.docs import with_docs
from perdure.api.services import Handler, Metrics, Services
from perdure.config import Settings
from perdure.engine.commands import Commands
from perdure.store.interface import Store


class _Name(Convertor[str]):
    """The rest of a path, whatever characters it has: a kind may hold slashes and line breaks."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("name", _Name())

#: More special paths stand before those that would match them too.
ENDPOINTS = with_docs(
    (
        *submissions.ENDPOINTS,
        *listings.ENDPOINTS,
        *tasks.ENDPOINTS,
        *batches.ENDPOINTS,
        *dag.ENDPOINTS,
        *deliveries.ENDPOINTS,
        *retries.ENDPOINTS,
        *pauses.ENDPOINTS,
        *health.ENDPOINTS,
    )
)


def build_app(
    commands: Commands,
    store: Store,
    metrics: Metrics,
    settings: Settings,
    *,
    ready: Callable[[], bool] = lambda: True,
    new_id: Callable[[], str] = lambda: str(uuid7()),
) -> Starlette:
    """The API over an engine that somebody else starts and stops; `ready` says whether it takes requests."""
    services = Services(
        commands=commands,
        store=store,
        metrics=metrics,
        gauges=health.Gauges(store, metrics),
        new_id=new_id,
        is_ready=ready,
        max_body_bytes=settings.server.max_body_bytes,
    )
    app = Starlette(
        routes=[Route(path, _Path(services, endpoints)) for path, endpoints in _by_path(ENDPOINTS).items()],
        middleware=[Middleware(_CommonHeaders)],
        exception_handlers={HTTPException: _answer_error, Exception: _answer_error},
    )
    # A path with a slash too many is unknown, not moved.
    app.router.redirect_slashes = False
    return app


def _by_path(endpoints: Iterable[Endpoint]) -> dict[str, list[Endpoint]]:
    paths: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, []).append(endpoint)
    return paths


async def _answer_error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException) and error.status_code == 404:
        error = HTTPException(404, "There is nothing at this path; /docs lists what there is.")
    return answer_problem(error, request)


class _Path:
    """One path with all of its methods. Whatever a handler raises becomes an answer here."""

    def __init__(self, services: Services, endpoints: Iterable[Endpoint]) -> None:
        self._services = services
        self._handlers: dict[str, Handler] = {endpoint.method: endpoint.handler for endpoint in endpoints}
        if "GET" in self._handlers:
            self._handlers["HEAD"] = self._handlers["GET"]
        self._allowed = ", ".join(sorted(self._handlers))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except Exception as error:
            response = answer_problem(error, request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        handler = self._handlers.get(request.method)
        if handler is None:
            detail = f"This path takes {self._allowed}."
            raise HTTPException(405, detail, {"Allow": self._allowed})
        return await handler(request, self._services)


class _CommonHeaders:
    """Adds what protects readers in a browser to every answer, and leaves out the body of answers to HEAD."""

    HEADERS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        without_body = scope["method"] == "HEAD"

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self.HEADERS]
            elif without_body:
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self._app(scope, receive, send_with_headers)
