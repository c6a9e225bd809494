"""The programs that the documentation speaks of, run for real: a server, a receiver, a shell."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import IO, Self

SECONDS_TO_START = 60
SECONDS_TO_STOP = 60
_END = "\x1e"
_LISTENING = re.compile(r"listening\s+http://(\S+)")
_STAND_IN = Path(__file__).with_name("curl.py")
#: What would change a server's configuration behind the test's back.
_OURS = re.compile(r"PERDURE_|RETRY_|(DATABASE_URL|HOST_URL|PORT|INSTANCE_ID)$")


def environment(folder: Path, database_url: str | None = None, *, stand_in: bool = False) -> dict[str, str]:
    """Variables under which `perdure`, `python3` and `curl` are found; curl's stand-in if there is no other."""
    found = {name: value for name, value in os.environ.items() if not _OURS.match(name)}
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    if stand_in or shutil.which("curl") is None:
        curl = programs / "curl"
        curl.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{_STAND_IN}" "$@"\n', "utf-8")
        curl.chmod(0o755)
    here = Path(sys.executable).parent
    found["PATH"] = os.pathsep.join((str(programs), str(here), found.get("PATH", os.defpath)))
    # Tables are as wide as they need to be.
    found["COLUMNS"] = "200"
    if database_url is not None:
        found["DATABASE_URL"] = database_url
    return found


class Server:
    """`perdure serve` with these arguments, until it is stopped. `lines` is what it said."""

    command = "serve"
    greeting = "runs tasks"

    def __init__(self, folder: Path, variables: Mapping[str, str], *arguments: str) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from perdure.cli import main; main()", self.command, *arguments],
            cwd=folder,
            env=dict(variables),
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        self._errors: IO[str] = self._process.stderr
        self._reader: Thread | None = None

    def wait_until_started(self) -> None:
        """Read the greeting; what follows is read in the background, so that the server never waits for us."""
        for line in self._errors:
            self.lines.append(line.rstrip("\n"))
            if self.greeting in line:
                self._reader = Thread(target=self._read_on)
                self._reader.start()
                return
        raise AssertionError(f"perdure {self.command} did not start: {self.lines}")

    @property
    def address(self) -> str:
        """Host and port."""
        match = _LISTENING.search("\n".join(self.lines))
        assert match is not None, self.lines
        return match[1]

    def stop(self) -> int:
        """Ask it to stop, wait until it has, and return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Wait until it has stopped by itself, and return its exit code."""
        if self._reader is None:
            self._reader = Thread(target=self._read_on)
            self._reader.start()
        self._reader.join()
        return self._process.wait(SECONDS_TO_STOP)

    def _read_on(self) -> None:
        with self._errors:
            self.lines.extend(line.rstrip("\n") for line in self._errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


class Worker(Server):
    """`perdure worker` with these arguments, until it is stopped."""

    command = "worker"
    greeting = "  instance "


@contextmanager
def receiving(program: str, port: int, folder: Path) -> Iterator[None]:
    """A receiver: a Python program that listens on `port`."""
    path = folder / "receiver.py"
    path.write_text(program, "utf-8")
    process = subprocess.Popen([sys.executable, path], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until_listening(process, port)
        yield
    finally:
        process.terminate()
        process.wait(SECONDS_TO_STOP)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_listening(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = monotonic() + SECONDS_TO_START
    while monotonic() < deadline:
        assert process.poll() is None, "the receiver ended"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            continue
        return
    raise AssertionError("the receiver does not listen")


class Shell:
    """One shell that runs block after block, so that variables last from one to the next."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            ["sh"], cwd=folder, env=dict(variables), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input: IO[str] = self._process.stdin
        self._output: IO[str] = self._process.stdout

    def run(self, text: str) -> tuple[int, str]:
        """The exit code of the last command, and what all of them printed."""
        self._input.write(f"{text}\nprintf '{_END}%s{_END}' \"$?\"\n")
        self._input.flush()
        printed = self._read_to_end_mark()
        return int(self._read_to_end_mark()), printed

    def _read_to_end_mark(self) -> str:
        characters: list[str] = []
        while (character := self._output.read(1)) != _END:
            assert character, f"the shell ended: {''.join(characters)}"
            characters.append(character)
        return "".join(characters)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._input.close()
        self._process.wait(SECONDS_TO_STOP)
        self._output.close()
