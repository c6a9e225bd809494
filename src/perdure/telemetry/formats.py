"""How a log record becomes one line that nothing in it can break out of."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime

_TEXT_LIMIT = 8 * 1024
_EXCEPTION_LIMIT = 32 * 1024
_ITEM_LIMIT = 100
_DEPTH_LIMIT = 6
_RESET = "\x1b[0m"
_COLOURS = {
    logging.DEBUG: "\x1b[2m",
    logging.INFO: "\x1b[32m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[1;31m",
}
_DIM = "\x1b[2m"


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, logger, message, the fields, and the exception if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _moment(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        exception = _exception(record)
        if exception:
            line["exception"] = exception
        for name, value in _fields(record).items():
            line[name if name not in line else name + "_"] = _plain(value)
        return json.dumps(line, ensure_ascii=True)


class HumanFormatter(logging.Formatter):
    """`12:00:01 INFO  message  key=value key=value`, in UTC; an exception follows, indented."""

    def __init__(self, coloured: bool = False) -> None:
        super().__init__()
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        time = self._paint(_DIM, _moment(record).strftime("%H:%M:%S"))
        level = self._paint(_COLOURS.get(record.levelno, ""), f"{record.levelname:<5}")
        line = f"{time} {level} {_escape(_message(record))}"
        fields = " ".join(
            f"{self._paint(_DIM, _escape(name) + '=')}{_quote(_plain(value))}"
            for name, value in _fields(record).items()
        )
        if fields:
            line = f"{line}  {fields}"
        exception = _exception(record)
        if exception:
            # The bar tells these lines from log lines, whatever stands in them.
            line += "".join(f"\n  | {_escape(text)}" for text in exception.splitlines())
        return line

    def _paint(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_RESET}" if self._coloured and colour else text


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _message(record: logging.LogRecord) -> str:
    return _shorten(record.getMessage(), _TEXT_LIMIT)


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields = getattr(record, "fields", None)
    return {str(name): value for name, value in fields.items()} if isinstance(fields, Mapping) else {}


def _exception(record: logging.LogRecord) -> str:
    """The traceback; of a long one its end, which names the error."""
    text = ""
    if record.exc_info and record.exc_info[0] is not None:
        text = logging.Formatter().formatException(record.exc_info)
    elif record.exc_text:
        text = record.exc_text
    return text if len(text) <= _EXCEPTION_LIMIT else "…" + text[-_EXCEPTION_LIMIT:]


def _plain(value: object, depth: int = 0) -> object:
    """The value in JSON's terms, bounded; what has no place there is written as text."""
    match value:
        case None | bool():
            return value
        case str():
            return _shorten(str(value), _TEXT_LIMIT)
        case int() if -(2**63) <= value < 2**63:
            return int(value)
        case float() if math.isfinite(value):
            return float(value)
        case datetime():
            return value.isoformat()
        case Mapping() if depth < _DEPTH_LIMIT:
            items = list(value.items())[:_ITEM_LIMIT]
            return {_text(name): _plain(item, depth + 1) for name, item in items}
        case list() | tuple() | set() | frozenset() if depth < _DEPTH_LIMIT:
            return [_plain(item, depth + 1) for item in list(value)[:_ITEM_LIMIT]]
        case int():
            return hex(value)[:100]
    return _text(value)


def _text(value: object) -> str:
    try:
        return _shorten(str(value), _TEXT_LIMIT)
    except Exception as problem:
        return f"<{type(value).__name__}, unprintable: {type(problem).__name__}>"


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"


def _escape(text: str) -> str:
    """Text in which nothing moves the cursor, starts a line or changes the direction of writing."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _quote(value: object) -> str:
    """A value that ends where it seems to: quoted if it is empty, or holds a space, quote or equals sign."""
    if isinstance(value, str):
        simple = value.isprintable() and value and not any(character in value for character in " \"'=\\")
        return value if simple else '"' + _escape(value.replace("\\", "\\\\").replace('"', '\\"')) + '"'
    return _escape(json.dumps(value, ensure_ascii=False))
