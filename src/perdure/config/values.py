"""Reading one value: of the types that the file has, or from the text of a variable or flag."""

from __future__ import annotations

import math
import re
from typing import Any, assert_never

from perdure.config.declare import Setting, ValueType
from perdure.domain.durations import parse_duration

_TRUTH = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?")


def describe_allowed(setting: Setting) -> str:
    """What the setting accepts, as in "an integer from 0 to 65535"."""
    bounds = _describe_bounds(setting)
    match setting.value_type:
        case ValueType.INTEGER:
            return f"an integer{bounds}"
        case ValueType.NUMBER:
            return f"a number{bounds}"
        case ValueType.BOOLEAN:
            return "true or false"
        case ValueType.TEXT:
            return "text that is not empty"
        case ValueType.CHOICE:
            return f"one of {', '.join(setting.choices)}"
        case ValueType.DURATION:
            return f"a duration{bounds} seconds, such as 90, 90s or 1h30m"
        case ValueType.TEXT_LIST:
            return "a list of text"
        case ValueType.DURATION_LIST:
            return f"a list of one or more durations{bounds} seconds, such as 90, 90s or 1h30m"
        case _:
            assert_never(setting.value_type)


def read_text(setting: Setting, text: str) -> Any:
    """The value that the text of a variable means; raises ValueError with what is allowed."""
    return read_value(setting, _parse_text(setting.value_type, text.strip()))


def read_value(setting: Setting, raw: object) -> Any:
    """The value in the setting's own type; raises ValueError with what is allowed."""
    try:
        value = _convert(setting, raw)
    except ValueError:
        raise ValueError(f"must be {describe_allowed(setting)}") from None
    if setting.declaration.check is not None:
        setting.declaration.check(value)
    return value


def format_number(value: float) -> str:
    """A number without a needless fraction: 60, 0.1."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _parse_text(value_type: ValueType, text: str) -> object:
    """The value as the file would have it; text that does not fit is left for the check to refuse."""
    match value_type:
        case ValueType.INTEGER:
            return int(text) if _INTEGER.fullmatch(text) else text
        case ValueType.NUMBER:
            return float(text) if _NUMBER.fullmatch(text) else text
        case ValueType.BOOLEAN:
            return _TRUTH.get(text.lower(), text)
        case ValueType.TEXT_LIST | ValueType.DURATION_LIST:
            return [item.strip() for item in text.split(",") if item.strip()]
        case ValueType.TEXT | ValueType.CHOICE | ValueType.DURATION:
            return text
        case _:
            assert_never(value_type)


def _convert(setting: Setting, raw: object) -> Any:
    match setting.value_type:
        case ValueType.INTEGER:
            return _in_bounds(setting, _to_integer(raw))
        case ValueType.NUMBER:
            return float(_in_bounds(setting, _to_number(raw)))
        case ValueType.BOOLEAN:
            return _to_boolean(raw)
        case ValueType.TEXT:
            return _to_text(raw)
        case ValueType.CHOICE:
            return _to_choice(raw, setting.choices)
        case ValueType.DURATION:
            return _in_bounds(setting, _to_duration(raw))
        case ValueType.TEXT_LIST:
            return tuple(_to_text(item) for item in _to_items(raw))
        case ValueType.DURATION_LIST:
            return _not_empty(tuple(_in_bounds(setting, _to_duration(item)) for item in _to_items(raw)))
        case _:
            assert_never(setting.value_type)


def _to_integer(raw: object) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    raise ValueError


def _to_number(raw: object) -> float:
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        return raw
    raise ValueError


def _to_boolean(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    raise ValueError


def _to_text(raw: object) -> str:
    if isinstance(raw, str) and raw.strip():
        return raw.strip()
    raise ValueError


def _to_choice(raw: object, choices: tuple[str, ...]) -> str:
    word = _to_text(raw).lower()
    if word in choices:
        return word
    raise ValueError


def _to_duration(raw: object) -> float:
    if isinstance(raw, str | int | float):
        return parse_duration(raw)
    raise ValueError


def _to_items(raw: object) -> list[object]:
    if isinstance(raw, list | tuple):
        return list(raw)
    raise ValueError


def _not_empty(values: tuple[float, ...]) -> tuple[float, ...]:
    if values:
        return values
    raise ValueError


def _in_bounds(setting: Setting, value: float) -> float:
    low, high = setting.declaration.within
    # Not a number is within no bounds, and infinity is beyond all of ours.
    if low <= value <= high:
        return value
    raise ValueError


def _describe_bounds(setting: Setting) -> str:
    low, high = setting.declaration.within
    return "" if math.isinf(low) else f" from {format_number(low)} to {format_number(high)}"
