"""What pydantic models lose when they are written as JSON and read again, such as secrets and fields of subclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import msgspec

SECRET = "is not written down; hand over an id by which the function finds it, or a plain str"
_NO_EQUALITY: Any = object.__eq__


def refuse_losses(given: Any, back: Any) -> None:
    """Raises ValueError if a model in what was given is not the same in what came back."""
    for place, was, became in _losses(given, back, "", False):
        if is_secret(was):
            raise ValueError(f"the secret in {place} {SECRET}")
        if is_model(was) and type(was) is not type(became):
            name = type(was).__name__
            raise ValueError(
                f"a {name} would come back as {type(became).__name__}{place and ' in '}{place}; "
                f"say {name} in the annotation"
            )
        raise ValueError(
            f"{place or type(was).__name__} would not come back as it was given; hand over plain data instead"
        )


def _losses(given: Any, back: Any, place: str, within: bool) -> Iterator[tuple[str, Any, Any]]:
    """Where a model, or what is `within` one, is not the same any more: the place, what it was, and what it became."""
    if is_model(given) and not is_model(back) and not within:
        yield from _lost_secrets(given, back)
    elif is_model(given) and _class_of(given) is not _class_of(back):
        yield place, given, back
    elif (parts := _parts(given)) is not None and (others := _parts(back)) is not None:
        inner = within or is_model(given)
        place = place or (type(given).__name__ if inner else "")
        if within and len(parts) != len(others):
            yield place, given, back
            return
        for name, one in parts.items():
            key = name if within or name in others else str(name)
            at = f"{place}.{name}".removeprefix(".")
            if key in others:
                yield from _losses(one, others[key], at, inner)
            elif within:
                yield at, one, None
    elif (within or (isinstance(given, Set) and isinstance(back, Set))) and _is_unequal(given, back):
        yield place, given, back


def _is_unequal(given: Any, back: Any) -> bool:
    """Whether they say so: without an __eq__ of its own, nothing equals its copy."""
    return type(given).__eq__ is not _NO_EQUALITY and (given == back) is False


def _lost_secrets(model: Any, plain: Any) -> Iterator[tuple[str, Any, Any]]:
    """Of a model whose reader gets plain data, since no annotation says otherwise."""
    try:
        back = type(model).model_validate(plain)
    except Exception:
        return
    for place, was, became in _losses(model, back, "", False):
        if is_secret(was):
            yield place, was, became


def _parts(value: Any) -> Mapping[Any, Any] | None:
    """What a value consists of, by name or number."""
    if is_model(value):
        return {name: value.__dict__.get(name) for name in type(value).model_fields} | (value.model_extra or {})
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return dict(enumerate(value))
    return None


def is_model(value: Any) -> bool:
    return hasattr(type(value), "model_fields") and hasattr(value, "model_dump")


def _class_of(value: Any) -> Any:
    """A generic model is the same class whichever types it was given."""
    return (getattr(value, "__pydantic_generic_metadata__", None) or {}).get("origin") or type(value)


def is_secret(value: Any) -> bool:
    return hasattr(value, "get_secret_value")
