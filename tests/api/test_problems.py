"""Refusals are problem documents, whatever went wrong."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from perdure.api import build_app
from perdure.assemble import Instance
from perdure.domain import errors
from perdure.domain.errors import Invalid, Problem
from tests.api.client import Client
from tests.api.drafts import UNKNOWN, task

ERRORS: list[tuple[Exception, int, str]] = [
    (Invalid([Problem("a", "is wrong")]), 400, "urn:perdure:problem:invalid"),
    (errors.NotFound("task", UNKNOWN), 404, "urn:perdure:problem:not-found"),
    (errors.Conflict("no", "Running", 3), 409, "urn:perdure:problem:conflict"),
    (errors.NotRunning("no", "Success", 3), 409, "urn:perdure:problem:not-running"),
    (errors.StaleAttempt("no", "Running", 3), 409, "urn:perdure:problem:stale-attempt"),
    (errors.StillProcessing("wait"), 409, "urn:perdure:problem:still-processing"),
    (errors.KeyReused("used"), 422, "urn:perdure:problem:key-reused"),
    (errors.SchemaMismatch("old"), 503, "urn:perdure:problem:unavailable"),
    (errors.Unavailable("gone"), 503, "urn:perdure:problem:unavailable"),
    (RuntimeError("password=hunter2"), 500, "about:blank"),
    (errors.PerdureError("password=hunter2"), 500, "about:blank"),
]


class Refusing:
    """Commands that always raise the same error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        async def refuse(*_arguments: object) -> None:
            raise self._error

        return refuse


@pytest.mark.parametrize(("error", "status", "kind"), ERRORS, ids=[type(error).__name__ for error, _, _ in ERRORS])
async def test_every_error_has_its_document(
    instance: Instance, error: Exception, status: int, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    commands: Any = Refusing(error)
    client = Client(build_app(commands, instance.store, instance.metrics, instance.settings))
    answered = await client.delete(f"/task/{UNKNOWN}")

    assert (answered.status, answered.json["type"]) == (status, kind)
    assert ("retry-after" in answered.headers) == (status == 503)
    if isinstance(error, errors.Conflict) and error.attempt is not None:
        assert (answered.json["task_status"], answered.json["task_attempt"]) == (error.status_label, error.attempt)
    else:
        assert "task_status" not in answered.json
    if status == 500:
        assert b"hunter2" not in answered.body
        (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert record.exc_info is not None
        assert record.exc_info[1] is error


async def test_an_unknown_path_is_a_problem_too(client: Client) -> None:
    for path in ("/nothing", "/task/", f"/task/{UNKNOWN}/", "/task/a/b/c", "//task"):
        answered = await client.get(path)
        assert (answered.status, answered.json["type"]) == (404, "about:blank")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/task", "GET, HEAD, POST"),
        ("POST", f"/task/{UNKNOWN}", "DELETE, GET, HEAD, PATCH, PUT"),
        ("GET", f"/task/pause/{UNKNOWN}", "PATCH"),
        ("PUT", "/batch", "POST"),
        ("POST", "/health", "GET, HEAD"),
        ("OPTIONS", "/task", "GET, HEAD, POST"),
        ("ODD", "/dag/x", "GET, HEAD"),
    ],
)
async def test_a_method_that_is_not_taken_names_those_that_are(
    client: Client, method: str, path: str, allowed: str
) -> None:
    answered = await client.request(method, path)

    assert (answered.status, answered.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize("path", ["/task", "/batches", "/health", "/docs", "/openapi.json", f"/task/{UNKNOWN}"])
async def test_head_answers_like_get_without_a_body(client: Client, path: str) -> None:
    await client.post("/task", [task()])
    head = await client.request("HEAD", path)
    get = await client.get(path)

    assert head.status == get.status
    assert head.headers == get.headers
    assert head.body == b""
