"""The command as people start it: a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

SECONDS_TO_START = 60.0
SECONDS_TO_STOP = 60.0
LISTENING = re.compile(r"listening +(http://\S+)")


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended and what it said."""

    code: int
    out: str
    error: str


def command() -> list[str]:
    """The console script, which lies beside the interpreter."""
    return [str(Path(sys.executable).with_name("perdure"))]


def environment(**variables: str) -> dict[str, str]:
    """Only what is said here, so that nothing on the machine changes the configuration."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "TMPDIR", "LANG")}
    return kept | variables


async def run(folder: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> Finished:
    """Run a command to its end."""
    process = await asyncio.create_subprocess_exec(
        *command(), *arguments, stdout=PIPE, stderr=PIPE, cwd=folder, env=environment(**(variables or {}))
    )
    try:
        out, error = await asyncio.wait_for(process.communicate(), SECONDS_TO_START)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return Finished(process.returncode or 0, out.decode(), error.decode())


class ServerProcess:
    """`perdure serve` on a free port, or another program; while entered, it runs unless the test ends it."""

    def __init__(self, folder: Path, *arguments: str, program: Sequence[str] | None = None) -> None:
        self._folder = folder
        self._command = program or [*command(), "serve", "--port", "0", *arguments]
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._said = asyncio.Condition()
        self.output = ""
        """What it has said so far."""

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdout=PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self._folder,
            env=environment(),
            # With the processes that it starts, so that no test leaves one behind.
            start_new_session=True,
        )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._process is not None:
            # With what it started, even when it has ended itself.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
        if self._reading is not None:
            await self._reading

    async def address(self) -> str:
        """Where it listens, once it says so."""
        await self.says(LISTENING.pattern)
        found = LISTENING.search(self.output)
        assert found is not None
        return found[1]

    async def says(self, pattern: str, times: int = 1) -> None:
        """Wait until its output matches so many times."""
        try:
            async with asyncio.timeout(SECONDS_TO_START), self._said:
                await self._said.wait_for(lambda: len(re.findall(pattern, self.output)) >= times)
        except TimeoutError:
            raise AssertionError(f"It did not say {pattern!r} {times} times, but:\n{self.output}") from None

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait for its end, and that of all that it started and did not take with it; the exit code."""
        assert self._process is not None
        assert self._reading is not None
        async with asyncio.timeout(SECONDS_TO_STOP):
            code = await self._process.wait()
            await asyncio.shield(self._reading)
        return code

    async def stop(self) -> int:
        self.send(signal.SIGTERM)
        return await self.ended()

    async def kill(self) -> None:
        """End it without a chance to do anything more."""
        self.send(signal.SIGKILL)
        await self.ended()

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            async with self._said:
                self.output += line.decode()
                self._said.notify_all()
