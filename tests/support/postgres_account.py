"""Under which account tests run PostgreSQL, which refuses to run as root."""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

OVERFLOW_USER = 65534


class PostgresUnavailable(RuntimeError):
    """The tests need a PostgreSQL and there is none to be had."""


@dataclass(frozen=True, slots=True)
class Account:
    """The account for child processes, in the shape subprocess takes it; None means that of the caller."""

    user: int | None = None
    group: int | None = None
    extra_groups: tuple[int, ...] | None = None

    @classmethod
    def allowed_to_run_postgres(cls) -> Account:
        """The caller's own account, or `nobody` when the caller is root."""
        if os.geteuid() != 0:
            return cls()
        account = cls(*_find_nobody(), ())
        try:
            account.run("/bin/sh", "-c", ":")
        except OSError as error:
            raise PostgresUnavailable(
                f"PostgreSQL refuses to run as root, and root cannot become user {account.user}: {error}. "
                "Run the tests as an ordinary user, or set PERDURE_TEST_DATABASE_URL to a running server."
            ) from error
        return account

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command to its end as this account, from a folder that every account can enter."""
        return subprocess.run(
            command,
            user=self.user,
            group=self.group,
            extra_groups=self.extra_groups,
            cwd="/",
            env=postgres_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def can_enter(self, path: Path) -> bool:
        """Whether this account can execute the file, or enter the folder, at the end of the path."""
        if self.user is None:
            return os.access(path, os.X_OK)
        # Asking as that account takes every parent folder, mount and access list into account.
        return self.run("/bin/sh", "-c", '[ -x "$0" ]', path).returncode == 0

    def own(self, path: Path) -> None:
        """Give the file or folder to this account."""
        if self.user is not None and self.group is not None:
            os.chown(path, self.user, self.group)


def _find_nobody() -> tuple[int, int]:
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        # Small container images have no such name, yet the number serves as well.
        return OVERFLOW_USER, OVERFLOW_USER
    return nobody.pw_uid, nobody.pw_gid


def postgres_environment() -> dict[str, str]:
    """The caller's environment without what would bend a server: PG* settings, and a locale for messages."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return inherited | {"LC_ALL": "C"}
