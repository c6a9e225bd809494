"""The environment in which PgQueuer is measured: its own, so that its dependencies and ours do not meet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "build" / "bench-pgqueuer"
PYTHON = FOLDER / "bin" / "python"
# uvloop is not required by it; it drains faster with it.
PACKAGES = ("pgqueuer[asyncpg]", "uvloop")
_VERSION = "from importlib.metadata import version; print(version('pgqueuer'))"


def prepare_environment() -> str:
    """Create it with the newest release, unless it is there; returns the release."""
    if _version() is None:
        print("Installing PgQueuer in an environment of its own ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(FOLDER)], check=True)
        pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES], check=True)
    version = _version()
    if version is None:
        raise RuntimeError(f"PgQueuer could not be installed. Remove {FOLDER} and try again.")
    return version


def _version() -> str | None:
    if not PYTHON.exists():
        return None
    answer = subprocess.run([str(PYTHON), "-c", _VERSION], capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else None
