"""The description of the API is valid, complete and harmless."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from openapi_spec_validator import OpenAPIV31SpecValidator

from perdure.api.app import ENDPOINTS
from perdure.api.openapi import build_document
from tests.api.client import Client

DOCUMENT = build_document(ENDPOINTS)

TABLE = {
    "/task": {"get", "post"},
    "/batch": {"post"},
    "/batches": {"get"},
    "/task/{id}": {"get", "patch", "put", "delete"},
    "/task/pause/{id}": {"patch"},
    "/task/resume/{id}": {"patch"},
    "/task/{id}/retry": {"post"},
    "/task/{id}/attempts": {"get"},
    "/task/{id}/deliveries": {"get"},
    "/task/{id}/events": {"get"},
    "/batch/{id}": {"get", "delete"},
    "/batch/{id}/retry": {"post"},
    "/batch/{id}/rules": {"patch"},
    "/retries": {"get"},
    "/retries/stats": {"get"},
    "/retry/preview": {"post"},
    "/dag/{id}": {"get"},
    "/deliveries/{id}/retry": {"post"},
    "/kind/pause/{name}": {"patch"},
    "/kind/resume/{name}": {"patch"},
    "/namespace/pause/{name}": {"patch"},
    "/namespace/resume/{name}": {"patch"},
    "/pauses": {"get"},
    "/health": {"get"},
    "/ready": {"get"},
    "/metrics": {"get"},
    "/openapi.json": {"get"},
    "/docs": {"get"},
}


def operations() -> list[dict[str, Any]]:
    return [operation for methods in DOCUMENT["paths"].values() for operation in methods.values()]


def test_the_document_is_valid() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_every_path_is_described() -> None:
    described = {path: set(methods) for path, methods in DOCUMENT["paths"].items()}

    assert described | TABLE == described


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [operation["operationId"] for operation in operations()]

    assert len(names) == len(set(names))


def test_limits_are_told() -> None:
    shapes = DOCUMENT["components"]["schemas"]

    assert shapes["TaskDraft"]["properties"]["timeout"]["maximum"] == 86_400
    assert shapes["TaskDraft"]["required"] == ["id", "name", "kind"]
    assert "Paused" in shapes["ShortTask"]["properties"]["status"]["enum"]


def test_the_refused_batch_id_is_explained() -> None:
    shown = DOCUMENT["components"]["schemas"]["ProblemDocument"]["properties"]["batch_id"]

    assert "no batch has this id" in shown["description"]


def test_every_shape_says_what_it_is() -> None:
    for name, shape in DOCUMENT["components"]["schemas"].items():
        assert shape["description"].endswith("."), name


class _Page(HTMLParser):
    """Collects what a page links to, and what it would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                self.ids.add(value or "")
            if name == "href":
                self.links.add(value or "")


async def test_the_page_needs_nothing_from_elsewhere(client: Client) -> None:
    answered = await client.get("/docs")
    page = _Page()
    page.feed(answered.body.decode())

    assert answered.headers["content-type"] == "text/html; charset=utf-8"
    assert not page.tags & {"script", "img", "link", "iframe"}
    assert not [name for name in page.attributes if name.startswith("on") or name in ("src", "style")]
    assert {link for link in page.links if not link.startswith("#")} == {"openapi.json"}
    assert {link[1:] for link in page.links if link.startswith("#")} <= page.ids
    policy = answered.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert re.search(r"style-src 'sha256-[A-Za-z0-9+/=]+'", policy)


async def test_the_page_lists_every_path(client: Client) -> None:
    page = (await client.get("/docs")).body.decode()

    for path in TABLE:
        assert f"<code>{path}</code>" in page


async def test_the_document_is_served(client: Client) -> None:
    answered = await client.get("/openapi.json")

    assert answered.headers["content-type"] == "application/json"
    assert answered.json == DOCUMENT
