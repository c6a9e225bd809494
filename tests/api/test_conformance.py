"""Requests made up from the description: whatever comes, the server never fails and answers as described."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from perdure.api import build_app
from perdure.api.app import ENDPOINTS
from perdure.api.openapi import build_document
from perdure.assemble import make_instance
from perdure.config import Server, Settings
from tests.api.drafts import called
from tests.support.postgres import PostgresServer

SCHEMA = schemathesis.openapi.from_dict(build_document(ENDPOINTS))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]


class ServerThread:
    """The application on a port, with an event loop of its own."""

    def __init__(self, database_url: str) -> None:
        self._settings = Settings(server=Server(database_url=database_url))
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self.url = ""

    def __enter__(self) -> ServerThread:
        self._thread.start()
        assert self._started.wait(30), "the server did not start"
        return self

    def __exit__(self, *_exception: object) -> None:
        assert self._loop is not None
        assert self._stopping is not None
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(30)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        instance = make_instance(self._settings, "http://perdure.test")
        await instance.store.open()
        app = build_app(instance.engine.commands, instance.store, instance.metrics, self._settings)
        config = uvicorn.Config(app, port=0, log_config=None, lifespan="off", timeout_graceful_shutdown=5)
        socket = config.bind_socket()
        # Who comes before the server is up waits in the queue.
        socket.listen()
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[socket]))
        self.url = f"http://127.0.0.1:{socket.getsockname()[1]}"
        self._started.set()
        await self._stopping.wait()
        server.should_exit = True
        await serving
        await instance.engine.stop()
        await instance.store.close()


@dataclass(frozen=True, slots=True)
class Target:
    """A server, and the ids of a batch and a task that it has."""

    url: str
    batch_id: str
    task_id: str


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    database_url = f"sqlite:///{tmp_path_factory.mktemp('conformance')}/test.db"
    if request.param == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres_server")
        database_url = postgres.create_database()
    with ServerThread(database_url) as server:
        body = json.dumps([called(metadata={"a": 1}, retry={"max_retries": 2}, payload=[1])]).encode()
        with urlopen(Request(f"{server.url}/task", body, method="POST")) as answer:
            (created,) = json.load(answer)
        yield Target(server.url, created["batch_id"], created["id"])


@SCHEMA.parametrize()
@settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_described(case: schemathesis.Case[Any], target: Target) -> None:
    if str(case.path_parameters.get("id", "0"))[-1] in "13579bdf":
        # Made-up ids name nothing; about half of them are exchanged for one that does.
        case.path_parameters["id"] = target.task_id if case.path.startswith("/task") else target.batch_id
    case.call_and_validate(base_url=target.url, checks=CHECKS)
