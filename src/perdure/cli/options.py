"""What commands have in common: flags, the configuration, and how they end when something is wrong."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from perdure.config import ConfigurationError, Settings, load
from perdure.domain.durations import parse_duration

REFUSED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes: somebody said no or there is no such thing; the command was not understood; Ctrl-C."""

URL_VARIABLE = "PERDURE_URL"

ConfigFlag = Annotated[
    Path | None, typer.Option("--config", help="TOML file; else PERDURE_CONFIG, else ./perdure.toml.", dir_okay=False)
]
DatabaseFlag = Annotated[
    str | None, typer.Option("--database-url", help="sqlite:///path or postgresql://user@host/name.")
]
UrlFlag = Annotated[
    str | None, typer.Option("--url", help="Ask this server instead of the database; else PERDURE_URL.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.")]
LimitFlag = Annotated[int, typer.Option("--limit", min=0, help="Show so many at most; 0 for all.")]
StatusFlag = Annotated[list[str] | None, typer.Option("--status", help="Only these; several times, or with commas.")]


def load_settings(flags: dict[str, object], path: Path | None) -> Settings:
    """The configuration, or the end of the command with everything that is wrong with it."""
    # It says where a server is, and is no setting of one.
    environ = {name: value for name, value in os.environ.items() if name != URL_VARIABLE}
    from perdure.engine.policies import policies_from

    try:
        settings = load(flags, environ, path)
        policies_from(settings)
    except ConfigurationError as error:
        fail("The configuration has problems:", *(f"  - {problem}" for problem in error.problems))
    return settings


def read_moment(flag: str, text: str | None, now: datetime, direction: int) -> datetime | None:
    """A time, or a length of time that counts from now: forward (1) or back (-1)."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return now + direction * timedelta(seconds=parse_duration(text))
        except (ValueError, OverflowError):
            fail(f"{flag} {text!r} is not understood; write 2030-01-31T12:00:00Z, or a duration such as 90s or 1h30m.")
    if moment.tzinfo is None:
        fail(f"{flag} {text!r} must name its time zone, for example by a final Z.")
    return moment


def fail(*lines: str, code: int = WRONG_USAGE) -> NoReturn:
    """End the command with these lines for people."""
    for line in lines:
        print(line, file=sys.stderr)
    raise typer.Exit(code)
