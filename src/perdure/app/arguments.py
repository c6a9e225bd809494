"""The arguments and the result of a function as JSON, checked against its annotations on the way in and out."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from perdure.app.plain import UNFIT, check_type, read_as, to_plain
from perdure.domain.checks import PAYLOAD_BYTES
from perdure.domain.errors import Invalid, Problem
from perdure.engine.intake import encode_json
from perdure.worker.context import Context
from perdure.worker.handlers import Unfit

_EMPTY = inspect.Parameter.empty
_REFUSED_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


@dataclass(frozen=True, slots=True)
class Arguments:
    """How one function is called from a payload: an object with a member for each argument."""

    signature: inspect.Signature
    """Without the parameter for the context."""
    types: Mapping[str, Any]
    result_type: Any
    context_parameter: str | None
    required: frozenset[str]

    def pack(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The payload for a call; raises Invalid if the function could not be called like that."""
        try:
            bound = self.signature.bind(*given, **named)
        except TypeError as error:
            raise Invalid([Problem("arguments", str(error))]) from error
        payload = {}
        problems = []
        for name, value in bound.arguments.items():
            try:
                payload[name] = to_plain(value, self.types[name])
            except UNFIT as error:
                problems.append(Problem(f"arguments.{name}", _first_line(error)))
        if problems:
            raise Invalid(problems)
        return payload

    def unpack(self, payload: str | None) -> dict[str, Any]:
        """The arguments of a stored payload; raises Unfit."""
        try:
            members = msgspec.json.decode(payload) if payload else {}
            if not isinstance(members, dict):
                raise TypeError("the payload must be an object with a member for each argument")
            unknown = sorted(set(members) - set(self.types))
            if unknown:
                raise TypeError(f"the function takes no {', '.join(unknown)}")
            arguments = {name: _read_member(name, value, self.types[name]) for name, value in members.items()}
            missing = sorted(self.required - arguments.keys())
            if missing:
                raise TypeError(f"the function needs {', '.join(missing)}")
        except UNFIT as error:
            raise Unfit("invalid_arguments", f"the arguments do not fit: {_first_line(error)}") from error
        return arguments

    def pack_result(self, value: Any) -> str | None:
        """The result as it is stored; raises Unfit."""
        if value is None and self.result_type in (type(None), Any):
            return None
        problems: list[Problem] = []
        try:
            text = encode_json(problems, "result", to_plain(value, self.result_type), PAYLOAD_BYTES)
        except UNFIT as error:
            raise Unfit("invalid_result", f"the result cannot be stored: {_first_line(error)}") from error
        if problems:
            raise Unfit("invalid_result", f"the result cannot be stored: {problems[0].message}")
        return text

    def read_result(self, value: Any) -> Any:
        """A stored result as what the function says that it returns; raises Unfit."""
        try:
            return read_as(value, self.result_type)
        except UNFIT as error:
            raise Unfit("invalid_result", _first_line(error)) from error


def arguments_of(function: Callable[..., Any]) -> Arguments:
    """Read a function's signature; raises TypeError for one that cannot be called from a payload."""
    hints = typing.get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    context = [name for name in signature.parameters if _is_context(hints.get(name))]
    if len(context) > 1:
        raise TypeError(f"{function.__qualname__} takes more than one Context")
    parameters = []
    for name, parameter in signature.parameters.items():
        if parameter.kind in _REFUSED_KINDS:
            shown = f"{_REFUSED_KINDS[parameter.kind]}{name}"
            raise TypeError(f"{function.__qualname__} takes {shown}; a task needs a name for each argument")
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise TypeError(f"{function.__qualname__} takes {name} by position only; a task passes arguments by name")
        if name not in context:
            parameters.append(parameter)
    for name, hint in hints.items():
        _check_hint(function, name, hint, context)
    return Arguments(
        signature.replace(parameters=parameters),
        {parameter.name: hints.get(parameter.name, Any) for parameter in parameters},
        hints.get("return", Any),
        context[0] if context else None,
        frozenset(parameter.name for parameter in parameters if parameter.default is _EMPTY),
    )


def _check_hint(function: Callable[..., Any], name: str, hint: Any, context: list[str]) -> None:
    if name in context:
        return
    try:
        check_type(hint)
    except TypeError as error:
        what = "result" if name == "return" else f"parameter {name}"
        raise TypeError(f"{function.__qualname__}: the {what} cannot be read from JSON: {error}") from error


def _is_context(hint: Any) -> bool:
    """Whether a parameter takes the context, also if it may do without."""
    return hint is Context or Context in typing.get_args(hint)


def _read_member(name: str, value: Any, wanted: Any) -> Any:
    try:
        return read_as(value, wanted)
    except UNFIT as error:
        raise ValueError(f"{name}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
