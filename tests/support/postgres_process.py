"""A PostgreSQL server of one's own: a fresh data folder, a free port, one process."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support import postgres_watcher
from tests.support.postgres_account import Account, PostgresUnavailable, postgres_environment
from tests.support.postgres_binaries import Binaries, copy_package_binaries

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    # The path of a socket may be too long for the system, depending on the temporary folder.
    "unix_socket_directories": "",
    "max_connections": "300",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
# Nobody needs the data of a test after a power failure.
FORGETFUL_SETTINGS = {"fsync": "off", "full_page_writes": "off"}

SECONDS_TO_START = 60.0
SECONDS_TO_STOP = 10.0
PORTS_TO_TRY = 5


class PortTaken(Exception):
    """Somebody else took the port between our look and the server's start."""


class PostgresProcess:
    """Starts in a temporary folder and leaves nothing behind, even if this process is killed."""

    def __init__(self, binaries: Binaries, account: Account, *, durable: bool) -> None:
        self.binaries = binaries
        self.account = account
        self.settings = SETTINGS if durable else SETTINGS | FORGETFUL_SETTINGS
        self.port = 0
        self.folder: Path | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        try:
            self.folder = folder = self._create_folder()
            self._watcher = _watch(folder)
            if not self.account.can_enter(self.binaries.folder / "postgres"):
                self.binaries = copy_package_binaries(self.binaries, folder)
            self._initialize(folder / "data")
            self._launch_on_free_port(folder)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop at once, without a last checkpoint, and remove the folder."""
        try:
            self._stop_server()
            if self.folder is not None:
                shutil.rmtree(self.folder)
                self.folder = None
        finally:
            if self._watcher is not None:
                self._watcher.communicate()
                self._watcher = None

    def _stop_server(self) -> None:
        if self._server is None:
            return
        self._server.send_signal(signal.SIGQUIT)
        try:
            self._server.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._server = None

    def _create_folder(self) -> Path:
        for parent in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
            if self.account.can_enter(Path(parent)):
                folder = Path(tempfile.mkdtemp(prefix="perdure-postgres-", dir=parent))
                self.account.own(folder)
                return folder
        raise PostgresUnavailable(
            "PostgreSQL refuses to run as root, and the account nobody can enter no temporary folder. "
            "Run the tests as an ordinary user, or set TMPDIR to a folder that everybody may enter."
        )

    def _initialize(self, data: Path) -> None:
        result = self.account.run(
            self.binaries.folder / "initdb",
            *("--pgdata", data, "--username", "postgres", "--auth", "trust"),
            *("--encoding", "UTF8", "--no-locale", "--no-sync"),
        )
        if result.returncode != 0:
            raise PostgresUnavailable(f"initdb from {self.binaries.folder} failed:\n{result.stdout}")

    def _launch_on_free_port(self, folder: Path) -> None:
        for _ in range(PORTS_TO_TRY):
            self.port = _find_free_port()
            try:
                self._launch(folder)
            except PortTaken:
                continue
            return
        raise PostgresUnavailable(f"PostgreSQL found {PORTS_TO_TRY} ports taken, one after the other.")

    def _launch(self, folder: Path) -> None:
        settings = self.settings | {"port": str(self.port)}
        log = folder / "postgres.log"
        with log.open("wb") as output:
            self._server = subprocess.Popen(
                [
                    self.binaries.folder / "postgres",
                    *("-D", folder / "data"),
                    *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
                ],
                user=self.account.user,
                group=self.account.group,
                extra_groups=self.account.extra_groups,
                cwd=folder,
                env=postgres_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for the tests, whose last statements still need the server.
                start_new_session=True,
            )
        self._wait_until_ready(self._server, folder / "data" / "postmaster.pid", log)

    def _wait_until_ready(self, server: subprocess.Popen[bytes], lock_file: Path, log: Path) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while not _says_ready(lock_file):
            if server.poll() is not None:
                self._server = None
                message = log.read_text(errors="replace")
                if "Address already in use" in message:
                    raise PortTaken
                raise PostgresUnavailable(f"PostgreSQL from {self.binaries.folder} did not start:\n{message}")
            if time.monotonic() > deadline:
                raise PostgresUnavailable(
                    f"PostgreSQL from {self.binaries.folder} was not ready after {SECONDS_TO_START:.0f} s:\n"
                    + log.read_text(errors="replace")
                )
            time.sleep(0.01)


def _watch(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", postgres_watcher.__file__, folder],
        stdin=subprocess.PIPE,
        # It must outlive whatever ends this process, Ctrl-C included.
        start_new_session=True,
    )


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _says_ready(lock_file: Path) -> bool:
    """The server keeps its state in the eighth line of its lock file."""
    try:
        lines = lock_file.read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[7].strip() == "ready"
