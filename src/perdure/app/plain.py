"""Values as plain JSON data, and back by their annotations."""

from __future__ import annotations

import inspect
import json
import typing
from typing import Any

import msgspec

#: What is raised about values that JSON cannot hold, or that are not what a type says.
UNFIT = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
#: Annotations that say nothing about a value.
_UNSAID = (Any, inspect.Parameter.empty, typing.NoReturn, typing.Never)

_refuse_non_finite = json.JSONEncoder(allow_nan=False, check_circular=False).encode


def to_plain(value: Any, wanted: Any) -> Any:
    """What is left of a value once it was JSON; raises one of `UNFIT` if it cannot be read as `wanted`."""
    plain = msgspec.json.decode(_write(value))
    read_as(plain, wanted)
    return plain


def read_as(value: Any, wanted: Any) -> Any:
    """Plain data as a value of the type; raises msgspec.ValidationError, or what a model raises."""
    if wanted in _UNSAID:
        return value
    return msgspec.convert(value, wanted, dec_hook=_decode_other, str_keys=True)


def _write(value: Any) -> bytes:
    text = msgspec.json.encode(value, enc_hook=_encode_other)
    # Numbers that JSON does not have become null as well.
    if b"null" in text:
        try:
            _refuse_non_finite(msgspec.to_builtins(value, enc_hook=_encode_other, str_keys=True))
        except ValueError as error:
            raise ValueError("JSON has no nan and no infinity; hand over None or text instead") from error
    return text


def _encode_other(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    raise TypeError(
        f"{type(value).__name__} cannot be written as JSON; use a dataclass, a msgspec Struct or plain data"
    )


def _decode_other(wanted: Any, value: Any) -> Any:
    if hasattr(wanted, "model_validate"):
        return wanted.model_validate(value)
    if isinstance(wanted, type) and isinstance(value, wanted):
        return value
    raise TypeError(f"{getattr(wanted, '__name__', wanted)} cannot be read from JSON")
