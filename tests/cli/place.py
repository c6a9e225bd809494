"""A place that commands work on, and an engine that makes things happen there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from typer.testing import CliRunner, Result

from perdure.assemble import make_instance
from perdure.cli.main import app
from perdure.config import Server, Settings
from perdure.testing import VirtualClock
from perdure.webhooks.request import WebhookAnswer, WebhookRequest
from tests.engine.driven import HOST_URL, Driven

Found = TypeVar("Found")
#: Where webhooks of tests go. Nobody looks the name up: the sender is a stand-in.
RECEIVER = "http://127.0.0.1:9/work"


@dataclass(frozen=True, slots=True)
class Receivers:
    """Answers every webhook: 202, or 500 if its URL says so."""

    async def send(self, request: WebhookRequest) -> WebhookAnswer:
        return WebhookAnswer(500 if "broken" in request.url else 202, 0.01)

    async def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Place:
    """A database, and the flags by which commands reach it: directly, or through a server."""

    folder: Path
    database_url: str
    flags: tuple[str, ...]

    def run(self, *arguments: str, input: str | bytes | None = None) -> Result:  # noqa: A002 - as the runner has it
        return CliRunner().invoke(app, [*arguments, *self.flags], input=input)

    def prints(self, *arguments: str, input: str | bytes | None = None) -> str:  # noqa: A002
        """What a command prints that does what it was told."""
        result = self.run(*arguments, input=input)
        assert result.exit_code == 0, result.output
        return result.stdout

    def answers(self, *arguments: str, input: str | None = None) -> Any:  # noqa: A002
        """The one document that a command prints for programs."""
        return json.loads(self.prints(*arguments, "--json", input=input))

    def refuses(self, *arguments: str, code: int = 1, input: str | bytes | None = None) -> str:  # noqa: A002
        """What a command says that ends with `code`, and prints nothing else."""
        result = self.run(*arguments, input=input)
        assert (result.exit_code, result.stdout) == (code, ""), result.output
        return result.stderr

    def submit(self, *tasks: dict[str, Any], **members: Any) -> dict[str, str]:
        """The ids of the tasks by key, and the batch's as `batch`."""
        given = self.answers("submit", "-", input=json.dumps({"tasks": list(tasks), **members}))
        return {task["key"]: task["id"] for task in given["tasks"]} | {"batch": given["batch_id"]}

    def play(self, scene: Callable[[Driven], Awaitable[Found]]) -> Found:
        """Let an engine work on the database, as the scene says."""
        return asyncio.run(self._play(scene))

    async def _play(self, scene: Callable[[Driven], Awaitable[Found]]) -> Found:
        settings = Settings(server=Server(database_url=self.database_url, instance_id="engine"))
        instance = make_instance(settings, HOST_URL, sender=Receivers())
        await instance.store.open()
        try:
            # Nobody asks this clock: the engine has its own, the real one.
            return await scene(Driven(instance, VirtualClock()))
        finally:
            await instance.engine.stop()
            await instance.store.close()

    def start(self) -> None:
        """Start every task that can start."""
        self.play(lambda driven: driven.start())

    def end(self, id: str, status: str = "Success", **members: Any) -> None:
        """Start what can start, and report the end of one."""

        async def scene(driven: Driven) -> None:
            await driven.start()
            await driven.report(id, status, **members)

        self.play(scene)


def hook(id: str, *dependencies: str, url: str = RECEIVER, **members: Any) -> dict[str, Any]:
    """A task that a webhook starts."""
    definition: dict[str, Any] = {"id": id, "name": f"task {id}", "kind": "test", **members}
    definition["on_start"] = {"params": {"url": url}}
    if dependencies:
        definition["dependencies"] = [{"id": one} for one in dependencies]
    return definition
