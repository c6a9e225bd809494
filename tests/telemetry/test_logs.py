"""What operators read in the logs."""

from __future__ import annotations

import io
import json
import logging
import logging.config
import re
from datetime import UTC, datetime
from typing import Any

import pytest
import uvicorn.config
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.states import Status
from perdure.telemetry.formats import HumanFormatter, JsonFormatter
from perdure.telemetry.logs import configure_logging, event

NOON = datetime(2025, 3, 1, 12, 0, 1, 234_567, tzinfo=UTC).timestamp()
log = logging.getLogger("perdure.engine")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def record(
    message: str = "task failed", level: int = logging.INFO, fields: object = None, exc_info: Any = None
) -> logging.LogRecord:
    made = logging.LogRecord("perdure.engine", level, "engine.py", 1, message, (), exc_info)
    made.created = NOON
    if fields is not None:
        made.fields = fields
    return made


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    text = JsonFormatter().format(made)
    assert text.isascii()
    assert text.isprintable()
    read: dict[str, Any] = json.loads(text)
    return read


def as_human(made: logging.LogRecord, coloured: bool = False) -> str:
    return HumanFormatter(coloured).format(made)


def failure(error: Exception) -> Any:
    try:
        raise error
    except Exception as raised:
        return type(raised), raised, raised.__traceback__


def test_json_holds_time_level_logger_message_and_fields() -> None:
    assert as_json(record(fields={"task_id": "0192", "attempt": 2})) == {
        "time": "2025-03-01T12:00:01.234Z",
        "level": "info",
        "logger": "perdure.engine",
        "message": "task failed",
        "task_id": "0192",
        "attempt": 2,
    }


def test_people_read_time_level_message_and_fields() -> None:
    assert as_human(record(fields={"task_id": "0192", "attempt": 2, "name": "load all"})) == (
        '12:00:01 INFO  task failed  task_id=0192 attempt=2 name="load all"'
    )
    assert as_human(record(level=logging.WARNING)) == "12:00:01 WARNING task failed"


def test_fields_do_not_replace_what_every_line_has() -> None:
    line = as_json(record(fields={"message": "mine", "level": 3, "time": "never"}))
    assert (line["message"], line["level"], line["time"]) == (
        "task failed",
        "info",
        "2025-03-01T12:00:01.234Z",
    )
    assert (line["message_"], line["level_"], line["time_"]) == ("mine", 3, "never")


@pytest.mark.parametrize(
    ("value", "in_json", "for_people"),
    [
        (None, None, "null"),
        (True, True, "true"),
        (0.25, 0.25, "0.25"),
        (float("nan"), "nan", "nan"),
        (float("-inf"), "-inf", "-inf"),
        ("", "", '""'),
        ("plain-text/1.2:3", "plain-text/1.2:3", "plain-text/1.2:3"),
        ("Jürgen", "Jürgen", "Jürgen"),
        ("a=b", "a=b", '"a=b"'),
        ('say "hi"', 'say "hi"', '"say \\"hi\\""'),
        ("back\\slash", "back\\slash", '"back\\\\slash"'),
        ("line\nbreak", "line\nbreak", '"line\\nbreak"'),
        ("\x1b[31mred\x9b", "\x1b[31mred\x9b", '"\\x1b[31mred\\x9b"'),
        ("\u202egpj.exe\u2028", "\u202egpj.exe\u2028", '"\\u202egpj.exe\\u2028"'),
        ("\ud800", "\ud800", '"\\ud800"'),
        (Status.RETRY_PENDING, "retry_pending", "retry_pending"),
        (datetime(2025, 3, 1, tzinfo=UTC), "2025-03-01T00:00:00+00:00", "2025-03-01T00:00:00+00:00"),
        ([1, "a b"], [1, "a b"], '[1, "a b"]'),
        ({"k": {1: b"x"}}, {"k": {"1": "b'x'"}}, '{"k": {"1": "b\'x\'"}}'),
        (ValueError("bad\nvalue"), "bad\nvalue", '"bad\\nvalue"'),
    ],
)
def test_values_are_written_so_that_they_can_be_told_apart(value: object, in_json: object, for_people: str) -> None:
    assert as_json(record(fields={"value": value}))["value"] == in_json
    assert as_human(record(fields={"value": value})) == f"12:00:01 INFO  task failed  value={for_people}"


def test_numbers_too_long_for_decimals_are_cut() -> None:
    assert as_json(record(fields={"value": 10**5000}))["value"] == hex(10**5000)[:100]


def test_values_that_cannot_be_printed_do_not_break_the_line() -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert as_json(record(fields={"value": Broken()}))["value"] == "<Broken, unprintable: RuntimeError>"


def test_endless_values_are_cut() -> None:
    circle: list[object] = []
    circle.append(circle)
    line = as_json(record("m" * 100_000, fields={"text": "x" * 1_000_000, "list": [0] * 1000, "circle": circle}))

    assert len(line["message"]) == len(line["text"]) == 8193
    assert len(line["list"]) == 100
    assert len(JsonFormatter().format(record(fields={"circle": circle}))) < 1000


@given(st.text(), st.dictionaries(st.text(), st.text() | st.lists(st.text()), max_size=3))
def test_no_text_can_forge_a_line(text: str, fields: dict[str, object]) -> None:
    made = record(text, fields=fields)

    assert as_human(made).isprintable()
    assert json.loads(JsonFormatter().format(made))["message"] == text


def test_exceptions_are_part_of_the_line() -> None:
    made = record(fields={"attempt": 2}, exc_info=failure(ValueError("no\n12:00:01 INFO  forged\x1b[0m")))

    exception = as_json(made)["exception"]
    assert exception.startswith("Traceback (most recent call last):\n")
    assert "ValueError: no\n" in exception
    first, *rest = as_human(made).split("\n")
    assert first == "12:00:01 INFO  task failed  attempt=2"
    assert rest[0] == "  | Traceback (most recent call last):"
    assert rest[-1] == "  | 12:00:01 INFO  forged\\x1b[0m"
    assert all(line.startswith("  | ") for line in rest)


def test_fields_that_are_none_are_ignored() -> None:
    assert as_human(record(fields="not a mapping")) == "12:00:01 INFO  task failed"


def test_colours_only_where_somebody_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for stream, coloured in ((Terminal(), True), (io.StringIO(), False)):
        configure_logging("info", "human", stream)
        log.info("hello")
        assert ("\x1b[" in stream.getvalue()) is coloured

    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    configure_logging("info", "human", stream)
    log.info("hello")
    assert "\x1b[" not in stream.getvalue()


@pytest.mark.parametrize(("stream", "is_json"), [(Terminal(), False), (io.StringIO(), True)])
def test_auto_writes_for_people_on_a_terminal_and_json_elsewhere(stream: io.StringIO, is_json: bool) -> None:
    configure_logging("info", "auto", stream)
    log.info("hello", extra={"fields": {"port": 8080}})

    assert stream.getvalue().startswith('{"time": ') is is_json


def test_event_logs_message_and_fields_of_any_name() -> None:
    stream = io.StringIO()
    configure_logging("INFO", "json", stream)
    event(log, logging.INFO, "100% done", level="x", logger="y", message="z", args=(1,))
    event(log, logging.DEBUG, "not shown")

    (line,) = [json.loads(text) for text in stream.getvalue().splitlines()]
    assert line["message"] == "100% done"
    assert (line["level_"], line["logger_"], line["message_"], line["args"]) == ("x", "y", "z", [1])


def test_event_takes_the_exception_along() -> None:
    stream = io.StringIO()
    configure_logging("info", "json", stream)
    try:
        raise KeyError("gone")
    except KeyError:
        event(log, logging.ERROR, "broken", exc_info=True, task_id="1")

    line = json.loads(stream.getvalue())
    assert line["exception"].endswith("KeyError: 'gone'")
    assert line["task_id"] == "1"
    assert "exc_info" not in line


def test_configuring_again_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging("info", "human", first)
    configure_logging("warning", "human", second)
    log.info("quiet")
    log.warning("loud")

    assert first.getvalue() == ""
    assert re.fullmatch(r"\d\d:\d\d:\d\d WARNING loud\n", second.getvalue())


def test_other_libraries_speak_from_warnings_on() -> None:
    stream = io.StringIO()
    configure_logging("debug", "human", stream)
    for name in ("perdure.store", "asyncio", "aiohttp.access"):
        logging.getLogger(name).debug("from %s", name)
        logging.getLogger(name).warning("warned by %s", name)

    assert re.findall(r"(?:from|warned by) \S+", stream.getvalue()) == [
        "from perdure.store",
        "warned by perdure.store",
        "warned by asyncio",
        "warned by aiohttp.access",
    ]


def test_uvicorn_writes_the_same_lines() -> None:
    logging.config.dictConfig(uvicorn.config.LOGGING_CONFIG)
    stream = io.StringIO()
    configure_logging("info", "json", stream)
    logging.getLogger("uvicorn.error").info("Started server process [%d]", 7)
    logging.getLogger("uvicorn.access").info('%s - "%s %s HTTP/%s" %d', "::1", "GET", "/", "1.1", 200)

    lines = [json.loads(text) for text in stream.getvalue().splitlines()]
    assert [(line["logger"], line["message"]) for line in lines] == [
        ("uvicorn.error", "Started server process [7]"),
        ("uvicorn.access", '::1 - "GET / HTTP/1.1" 200'),
    ]


def test_unknown_levels_and_formats_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="'loud' is no log level; choose one of debug, info, warning"):
        configure_logging("loud", "human", io.StringIO())
    with pytest.raises(ValueError, match="'xml' is no log format; choose auto, human or json"):
        configure_logging("info", "xml", io.StringIO())  # type: ignore[arg-type]
