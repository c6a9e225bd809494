"""Arguments and results are checked against annotations: when a call is submitted, and again when it is run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel

from perdure import Context, Invalid
from perdure.app.arguments import Arguments, arguments_of
from perdure.worker.handlers import Unfit


class Colour(Enum):
    RED = "red"


@dataclass
class Line:
    article: str
    count: int = 1


@dataclass
class Order:
    id: int
    lines: list[Line] = field(default_factory=list)


class Receipt(msgspec.Struct):
    total: Decimal
    paid_at: datetime


class Part(BaseModel):
    made_at: datetime


class Model(BaseModel):
    size: int
    colour: Colour = Colour.RED
    parts: list[Part] = []


@dataclass
class Measure:
    value: float | None


class Reading(BaseModel):
    value: float | None


def repr_kind(value: Any) -> str:
    """A name that is the same in every process."""
    return (
        str(value)
        if value is None or isinstance(value, int | str)
        else getattr(value, "__name__", type(value).__name__)
    )


NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def _taking(kind: Any) -> Arguments:
    def function(value, ctx):  # type: ignore[no-untyped-def]  # noqa: ARG001 - its annotations are set below
        return value

    function.__annotations__ = {"value": kind, "ctx": Context, "return": kind}
    return arguments_of(function)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, 7),
        (float, 1.5),
        (str, "text \N{SNOWMAN}"),
        (bool, True),
        (type(None), None),
        (int | None, None),
        (list[int], [1, 2]),
        (dict[str, Any], {"a": [1, None]}),
        (tuple[int, str], (1, "a")),
        (set[int], {1, 2}),
        (datetime, NOON),
        (timedelta, timedelta(seconds=90)),
        (Decimal, Decimal("1.10")),
        (UUID, UUID("01890a5d-ac96-774b-bcce-b302099a8057")),
        (Colour, Colour.RED),
        (Order, Order(7, [Line("book", 2)])),
        (list[Order], [Order(1), Order(2)]),
        (Receipt, Receipt(Decimal("9.99"), NOON)),
        (Model, Model(size=3, parts=[Part(made_at=NOON)])),
        (Model | None, None),
        (Model | None, Model(size=3)),
        (list[Model], [Model(size=1), Model(size=2)]),
        (dict[str, Model], {"a": Model(size=1)}),
        (Any, {"whatever": 1}),
    ],
    ids=repr_kind,
)
def test_a_value_arrives_as_it_was_given(kind: Any, value: Any) -> None:
    arguments = _taking(kind)

    stored = json.dumps(arguments.pack((value,), {}))

    assert arguments.unpack(stored) == {"value": value}
    result = arguments.pack_result(value)
    assert arguments.read_result(None if result is None else json.loads(result)) == value


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, "7"),
        (int, 1.5),
        (str, 7),
        (Order, {"id": "x"}),
        (Order, Line("book")),
        (Model, {"size": "x"}),
        (int, None),
    ],
    ids=repr_kind,
)
def test_a_value_of_another_type_is_refused_with_the_name_of_the_argument(kind: Any, value: Any) -> None:
    arguments = _taking(kind)
    with pytest.raises(Invalid) as refused:
        arguments.pack((value,), {})
    assert [problem.field for problem in refused.value.problems] == ["arguments.value"]
    with pytest.raises(Unfit, match="value") as unfit:
        arguments.unpack(msgspec.json.encode({"value": value}, enc_hook=vars).decode())
    assert unfit.value.code == "invalid_arguments"


@pytest.mark.parametrize("value", [object(), Path("/"), {1: object()}, 1j], ids=repr_kind)
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(Invalid):
        _taking(Any).pack((value,), {})
    with pytest.raises(Unfit, match="cannot be stored"):
        _taking(Any).pack_result(value)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf], ids=str)
@pytest.mark.parametrize(
    ("kind", "wrap"),
    [
        (float, lambda number: number),
        (float | None, lambda number: number),
        (Any, lambda number: {"deep": [None, (number,)]}),
        (list[float | None], lambda number: [1.5, number]),
        (Measure, Measure),
        (Reading, lambda number: Reading(value=number)),
    ],
    ids=repr_kind,
)
def test_numbers_that_json_does_not_have_are_refused(kind: Any, wrap: Callable[[float], Any], number: float) -> None:
    arguments = _taking(kind)
    with pytest.raises(Invalid, match=r"arguments\.value: JSON has no nan and no infinity; hand over None"):
        arguments.pack((wrap(number),), {})
    with pytest.raises(Unfit, match="the result cannot be stored: JSON has no nan") as unfit:
        arguments.pack_result(wrap(number))
    assert unfit.value.code == "invalid_result"


@pytest.mark.parametrize(
    "value", [None, [None, 1.5], "null and nan", Measure(None), Reading(value=None)], ids=repr_kind
)
def test_null_is_not_mistaken_for_such_a_number(value: Any) -> None:
    assert _taking(Any).pack((value,), {}) == {"value": msgspec.to_builtins(value, enc_hook=BaseModel.model_dump)}


def test_json_that_is_written_already_is_taken_as_it_is() -> None:
    assert _taking(Any).pack((msgspec.Raw(b"[null]"),), {}) == {"value": [None]}


@pytest.mark.parametrize(
    ("kind", "value"),
    [(int, "7"), (int, None), (str, 7), (list[int], [1, "2"]), (Order, {"id": "x"}), (Order, None), (Model, {})],
    ids=repr_kind,
)
def test_a_result_that_is_not_what_the_function_says_is_refused(kind: Any, value: Any) -> None:
    with pytest.raises(Unfit, match="the result cannot be stored") as unfit:
        _taking(kind).pack_result(value)
    assert unfit.value.code == "invalid_result"


def test_a_result_has_its_limit() -> None:
    with pytest.raises(Unfit, match="256 KiB"):
        _taking(str).pack_result("x" * 300_000)


def test_defaults_are_left_to_the_function() -> None:
    def send(to: str, copies: int = 1, *, urgent: bool = False) -> None: ...

    arguments = arguments_of(send)
    assert arguments.pack(("me",), {"urgent": True}) == {"to": "me", "urgent": True}
    assert arguments.unpack('{"to": "me"}') == {"to": "me"}


@pytest.mark.parametrize(
    ("given", "named"), [((), {}), ((1, 2, 3), {}), ((1,), {"first": 2}), ((1,), {"unknown": 2})], ids=str
)
def test_a_call_that_python_would_refuse_is_refused(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    def add(first: int, second: int = 0) -> None: ...

    with pytest.raises(Invalid, match="arguments"):
        arguments_of(add).pack(given, named)


@pytest.mark.parametrize("payload", ["[1]", '"text"', "{}", '{"value": 1, "more": 2}', None])
def test_a_payload_that_does_not_fit_is_told_apart(payload: str | None) -> None:
    with pytest.raises(Unfit):
        _taking(int).unpack(payload)


def test_functions_that_cannot_be_called_by_name_are_refused_at_once() -> None:
    def many(*values: int) -> None: ...
    def anything(**values: int) -> None: ...
    def by_position(value: int, /) -> None: ...
    def two_contexts(a: Context, b: Context) -> None: ...

    for function in (many, anything, by_position, two_contexts):
        with pytest.raises(TypeError, match=function.__name__):
            arguments_of(function)
