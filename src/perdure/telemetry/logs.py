"""Log lines for people and for machines.

Code logs through the standard library and hands over what belongs to a line as fields:

    log = logging.getLogger(__name__)
    event(log, logging.INFO, "task failed", task_id=id, attempt=2)

Layers below this one write the same as `log.info("task failed", extra={"fields": {"task_id": id}})`.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Literal, TextIO

from perdure.telemetry.formats import HumanFormatter, JsonFormatter

LogFormat = Literal["auto", "human", "json"]

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}

#: Loggers that speak at the chosen level; those of other libraries only from warnings on.
_OURS = ("perdure", "uvicorn")
#: uvicorn gives these handlers of their own when it is left to configure logging.
_UVICORN = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")


class _Handler(logging.StreamHandler[TextIO]):
    """Marks the handler as ours, so that configuring again replaces it."""


def configure_logging(level: str, format: LogFormat, stream: TextIO | None = None) -> None:  # noqa: A002
    """Send the logs of the whole process to the stream (standard error), replacing an earlier configuration.

    `auto` writes for people on a terminal and JSON elsewhere. Start uvicorn with `log_config=None`, or it
    sets up its own loggers again.
    """
    stream = sys.stderr if stream is None else stream
    number = _level_number(level)
    handler = _Handler(stream)
    handler.setFormatter(_formatter(format, stream))
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(max(number, logging.WARNING))
    for name in _UVICORN:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    for name in _OURS:
        logging.getLogger(name).setLevel(number)


def event(logger: logging.Logger, level: int, message: str, /, *, exc_info: bool = False, **fields: object) -> None:
    """Log a message with fields. Within an exception handler, `exc_info=True` adds the exception."""
    if logger.isEnabledFor(level):
        logger.log(level, "%s", message, extra={"fields": fields}, exc_info=exc_info, stacklevel=2)


def _level_number(level: str) -> int:
    try:
        return LEVELS[level.lower()]
    except KeyError:
        raise ValueError(f"{level!r} is no log level; choose one of {', '.join(LEVELS)}.") from None


def _formatter(format: LogFormat, stream: TextIO) -> logging.Formatter:  # noqa: A002
    on_terminal = stream.isatty()
    match format:
        case "json":
            return JsonFormatter()
        case "human":
            return HumanFormatter(coloured=on_terminal and "NO_COLOR" not in os.environ)
        case "auto":
            return _formatter("human" if on_terminal else "json", stream)
    raise ValueError(f"{format!r} is no log format; choose auto, human or json.")
