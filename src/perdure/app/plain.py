"""Values as plain JSON data and back by their annotations; what would not come back as it was is refused."""

from __future__ import annotations

import inspect
import json
import typing
from functools import partial
from typing import Any

import msgspec

from perdure.app.losses import SECRET, is_model, is_secret, refuse_losses

#: What is raised about values that JSON cannot hold, or that are not what a type says.
UNFIT = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
#: Annotations that say nothing about a value.
_UNSAID = (Any, inspect.Parameter.empty, typing.NoReturn, typing.Never)

_refuse_non_finite = json.JSONEncoder(allow_nan=False, check_circular=False).encode


def to_plain(value: Any, wanted: Any) -> Any:
    """What is left of a value once it was JSON; raises one of `UNFIT` if it is not the same when read as `wanted`."""
    refusal: Exception | None = None
    # Models are written by their aliases. Some are read by the names of their fields instead.
    for by_alias in (True, False):
        models: list[Any] = []
        plain = msgspec.json.decode(_write(value, partial(_encode_other, models, by_alias)))
        try:
            back = read_as(plain, wanted)
            if models:
                refuse_losses(value, back)
            return plain
        except UNFIT as error:
            refusal = refusal or error
            if not models:
                break
    assert refusal is not None
    raise refusal


def read_as(value: Any, wanted: Any) -> Any:
    """Plain data as a value of the type; raises msgspec.ValidationError, or what a model raises."""
    if wanted in _UNSAID:
        return value
    return msgspec.convert(value, wanted, dec_hook=_decode_other, str_keys=True)


def check_type(wanted: Any) -> None:
    """Raises TypeError for an annotation by which nothing can be read."""
    if wanted in _UNSAID:
        return
    try:
        msgspec.json.Decoder(wanted, dec_hook=_decode_other)
    except NameError:
        # It names a class that follows further down in its module.
        return


def _write(value: Any, encode_other: Any) -> bytes:
    text = msgspec.json.encode(value, enc_hook=encode_other)
    # Numbers that JSON does not have become null as well.
    if b"null" in text:
        try:
            _refuse_non_finite(msgspec.to_builtins(value, enc_hook=encode_other, str_keys=True))
        except ValueError as error:
            raise ValueError("JSON has no nan and no infinity; hand over None or text instead") from error
    return text


def _encode_other(models: list[Any], by_alias: bool, value: Any) -> Any:
    if is_model(value):
        models.append(value)
        return value.model_dump(mode="json", by_alias=by_alias, round_trip=True)
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if is_secret(value):
        raise TypeError(f"a {type(value).__name__} {SECRET}")
    raise TypeError(
        f"{type(value).__name__} cannot be written as JSON; use a dataclass, a msgspec Struct or plain data"
    )


def _decode_other(wanted: Any, value: Any) -> Any:
    if hasattr(wanted, "model_validate"):
        return wanted.model_validate(value)
    if isinstance(wanted, type) and isinstance(value, wanted):
        return value
    raise TypeError(f"{getattr(wanted, '__name__', wanted)} cannot be read from JSON")
