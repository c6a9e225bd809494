"""Where a command works: on a database, or through a server. Both are asked in the same way, by the same client."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

import typer

from perdure.cli.options import INTERRUPTED, REFUSED, URL_VARIABLE, WRONG_USAGE, fail, load_settings
from perdure.cli.show import clean, note
from perdure.client import AsyncClient, ClientError, InvalidRequest, Refused
from perdure.config import Settings
from perdure.config.addresses import SQLITE_PREFIX
from perdure.config.problems import MASK, mask_password
from perdure.domain.errors import PerdureError

RETRIES = 2
"""A person waits: rather say soon that a server does not answer."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Target:
    """What was said about the place to work on, and how to speak about what goes wrong there."""

    config: Path | None
    database_url: str | None
    url: str | None
    as_json: bool

    @property
    def server(self) -> str | None:
        """The server to ask; None for the database. What was typed counts more than the environment."""
        if self.url is not None:
            if self.database_url is not None:
                fail("--url and --database-url name two places; give one of them.")
            return self.url
        if self.database_url is not None or self.config is not None:
            return None
        return os.environ.get(URL_VARIABLE, "").strip() or None

    @property
    def flags(self) -> str:
        """What to add to a command so that it works on the same place; secrets are left out."""
        given = (("--config", self.config), ("--database-url", self.database_url), ("--url", self.url))
        shown = [(flag, mask_password(str(value))) for flag, value in given if value is not None]
        return "".join(f" {flag} {shlex.quote(value)}" for flag, value in shown if MASK not in value)

    def run(
        self,
        work: Callable[[AsyncClient], Awaitable[Result]],
        *,
        creates: bool = False,
        invalid: int = WRONG_USAGE,
    ) -> Result:
        """Do the work. `creates`: a database file may be made for it. `invalid`: how an invalid request ends."""
        try:
            return asyncio.run(self._run(work, creates))
        except Refused as error:
            self._refuse(error, invalid if isinstance(error, InvalidRequest) else REFUSED)
        except (ClientError, PerdureError) as error:
            self._tell({"error": str(error)}, clean(str(error), lines=True))
            raise typer.Exit(REFUSED) from error
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    async def _run(self, work: Callable[[AsyncClient], Awaitable[Result]], creates: bool) -> Result:
        async with self._client(creates) as client:
            return await work(client)

    @asynccontextmanager
    async def _client(self, creates: bool) -> AsyncIterator[AsyncClient]:
        server = self.server
        if server is not None:
            async with AsyncClient(server, retries=RETRIES) as client:
                yield client
            return
        settings = load_settings({"server.database_url": self.database_url}, self.config)
        if not creates:
            self._require_file(settings)
        from perdure.cli.local import open_locally

        async with open_locally(settings) as transport, AsyncClient(transport=transport, retries=0) as client:
            yield client

    def _require_file(self, settings: Settings) -> None:
        """Whoever only asks must not leave an empty database behind."""
        url = settings.server.database_url
        if url.startswith(SQLITE_PREFIX) and not Path(url.removeprefix(SQLITE_PREFIX)).exists():
            path = url.removeprefix(SQLITE_PREFIX)
            message = (
                f"There is no database file {path}. `perdure serve` and `perdure submit` make one; "
                "name another with --database-url, or a server with --url."
            )
            self._tell({"error": message}, message)
            raise typer.Exit(REFUSED)

    def _refuse(self, error: Refused, code: int) -> NoReturn:
        details = [f"  - {clean(detail)}" for detail in error.details]
        self._tell(error.problem, "\n".join([clean(str(error), lines=True), *details]))
        raise typer.Exit(code) from error

    def _tell(self, problem: object, text: str) -> None:
        note(json.dumps(problem) if self.as_json else text)
