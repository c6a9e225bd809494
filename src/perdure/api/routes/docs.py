"""The description of the API: for programs, and for people."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from perdure.api.answers import encode
from perdure.api.docs_page import SECURITY_POLICY, render_page
from perdure.api.endpoints import Answer, Endpoint
from perdure.api.openapi import build_document
from perdure.api.services import Services

SUBJECT = "Operation"


def with_docs(endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """The endpoints, and two more that describe them all."""
    written: dict[str, bytes] = {}

    async def show_document(_request: Request, _services: Services) -> Response:
        return Response(written["document"], media_type="application/json")

    async def show_page(_request: Request, _services: Services) -> Response:
        headers = {"Content-Security-Policy": SECURITY_POLICY}
        return Response(written["page"], headers=headers, media_type="text/html")

    complete = (
        *endpoints,
        Endpoint(
            method="GET",
            path="/openapi.json",
            handler=show_document,
            subject=SUBJECT,
            summary="Show this description as OpenAPI",
            answers=(Answer(200, "OpenAPI 3.1.", dict[str, Any]),),
        ),
        Endpoint(
            method="GET",
            path="/docs",
            handler=show_page,
            subject=SUBJECT,
            summary="Show this description as a page",
            answers=(Answer(200, "HTML.", str, "text/html"),),
        ),
    )
    document = build_document(complete)
    written["document"] = encode(document)
    written["page"] = render_page(document)
    return complete
