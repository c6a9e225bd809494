"""Pydantic models as arguments and results: they come back as they were given, or are refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Generic, NoReturn, TypeVar

import pytest
from pydantic import (
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    SecretStr,
    computed_field,
    field_validator,
)
from pydantic.alias_generators import to_camel

from perdure import Context, Invalid, Perdure
from perdure.app.arguments import Arguments, arguments_of
from perdure.worker.handlers import Unfit

Content = TypeVar("Content")


class Aliased(BaseModel):
    order_number: int = Field(alias="orderNumber")


class WrittenByAlias(BaseModel):
    """As answers of web services often are: the alias is for writing only."""

    model_config = ConfigDict(alias_generator=AliasGenerator(serialization_alias=to_camel))
    order_number: int = 0


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cents: int

    @computed_field
    def euros(self) -> float:
        return self.cents / 100


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    size: int = 0


class Locked(BaseModel):
    """Has a private attribute that nothing equals."""

    size: int
    _lock: Any = PrivateAttr(default_factory=threading.Lock)


class Outer(BaseModel):
    inner: Locked
    sizes: Sequence[int] = ()


class Animal(BaseModel):
    name: str


class Dog(Animal):
    barks: bool = True


class Owner(BaseModel):
    animals: list[Animal]


class Login(BaseModel):
    user: str
    password: SecretStr = SecretStr("")


class Hidden(BaseModel):
    place: str = Field(default="", exclude=True)


class Scaled(BaseModel):
    size: int

    @field_validator("size")
    @classmethod
    def scale(cls, size: int) -> int:
        return size * 10


class Inbound(BaseModel):
    size: int = Field(validation_alias="in")


class Box(BaseModel, Generic[Content]):
    content: Content


class Key(BaseModel):
    model_config = ConfigDict(frozen=True)
    secret: SecretStr


class Noted(BaseModel):
    notes: dict[str, Any]


@dataclass
class Parcel:
    size: int


@dataclass
class Envelope:
    login: Login | None = None
    animal: Animal | None = None


def _taking(kind: Any) -> Arguments:
    def function(value, ctx):  # type: ignore[no-untyped-def]  # noqa: ARG001 - its annotations are set below
        return value

    function.__annotations__ = {"value": kind, "ctx": Context, "return": kind}
    return arguments_of(function)


def _through(kind: Any, value: Any) -> tuple[Any, Any]:
    """A value as it arrives as an argument, and as a result."""
    arguments = _taking(kind)
    argument = arguments.unpack(json.dumps(arguments.pack((value,), {})))["value"]
    return argument, arguments.read_result(json.loads(arguments.pack_result(value) or "null"))


def _name(value: Any) -> str:
    """One that is the same in every process."""
    return getattr(value, "__name__", type(value).__name__)


FIT = [
    (Aliased, Aliased(orderNumber=7)),
    (WrittenByAlias, WrittenByAlias(order_number=7)),
    (Strict, Strict(cents=150)),
    (Open, Open.model_validate({"size": 1, "more": [1]})),
    (Locked, Locked(size=1)),
    (Outer, Outer(inner=Locked(size=1), sizes=(1, 2))),
    (Dog, Dog(name="Rex")),
    (Box, Box[int](content=1)),
    (RootModel[list[int]], RootModel[list[int]]([1, 2])),
    (list[Aliased], [Aliased(orderNumber=7)]),
    (dict[int, Aliased], {7: Aliased(orderNumber=7)}),
    (Aliased | None, None),
    (Envelope, Envelope(animal=Animal(name="Rex"))),
    (Noted, Noted(notes={"day": None, "sizes": (1, 2)})),
]


@pytest.mark.parametrize(("kind", "value"), FIT, ids=_name)
def test_a_model_comes_back_as_it_was_given(kind: Any, value: Any) -> None:
    for back in _through(kind, value):
        assert type(back).__name__.partition("[")[0] == type(value).__name__.partition("[")[0]
        # As text: private attributes, and tuples that JSON made lists, make models unequal.
        assert str(back).replace("[", "(").replace("]", ")") == str(value).replace("[", "(").replace("]", ")")


@pytest.mark.parametrize("value", [value for _, value in FIT], ids=_name)
def test_without_an_annotation_a_model_is_plain_data(value: Any) -> None:
    argument, result = _through(Any, value)
    assert argument == result == json.loads(json.dumps(argument))


def test_models_are_stored_by_their_aliases() -> None:
    assert _taking(Aliased).pack((Aliased(orderNumber=7),), {}) == {"value": {"orderNumber": 7}}


ID_OR_TEXT = "hand over an id by which the function finds it, or a plain str"
LOST = [
    (Login, Login(user="ada", password=SecretStr("x")), rf"the secret in Login.password .*; {ID_OR_TEXT}"),
    (Any, Login(user="ada", password=SecretStr("x")), rf"the secret in Login.password .*; {ID_OR_TEXT}"),
    (list[Login], [Login(user="ada", password=SecretStr("x"))], "the secret in 0.password"),
    (Envelope, Envelope(login=Login(user="ada", password=SecretStr("x"))), "the secret in login.password"),
    (set[Key], {Key(secret=SecretStr("x"))}, "set would not come back as it was given"),
    (Any, {"keys": [Key(secret=SecretStr("x"))]}, "the secret in Key.secret"),
    (Noted, Noted(notes={"day": date(2030, 1, 1)}), "Noted.notes.day would not come back as it was given"),
    (SecretStr, SecretStr("x"), f"a SecretStr is not written down; {ID_OR_TEXT}"),
    (Animal, Dog(name="Rex"), "a Dog would come back as Animal; say Dog in the annotation"),
    (list[Animal], [Dog(name="Rex")], "a Dog would come back as Animal in 0;"),
    (Owner, Owner(animals=[Dog(name="Rex")]), "a Dog would come back as Animal in Owner.animals.0;"),
    (Hidden, Hidden(place="here"), "Hidden.place would not come back as it was given"),
    (Scaled, Scaled(size=1), "Scaled.size would not come back as it was given"),
    (Inbound, Inbound.model_validate({"in": 1}), "Field required"),
]


@pytest.mark.parametrize(("kind", "value", "reason"), LOST, ids=_name)
def test_a_model_that_would_not_come_back_is_refused(kind: Any, value: Any, reason: str) -> None:
    with pytest.raises(Invalid, match=f"arguments.value: .*{reason}"):
        _taking(kind).pack((value,), {})
    with pytest.raises(Unfit, match=f"the result cannot be stored: .*{reason}") as unfit:
        _taking(kind).pack_result(value)
    assert unfit.value.code == "invalid_result"


@pytest.mark.parametrize(
    "kind", [Dog | str, Aliased | Strict, list[Dog | int], dict[str, Aliased | Strict], Parcel | Envelope], ids=str
)
def test_a_union_that_cannot_be_told_apart_is_refused_when_the_function_is_decorated(kind: Any) -> None:
    def takes(pet): ...  # type: ignore[no-untyped-def] # its annotations are set below

    def returns(): ...  # type: ignore[no-untyped-def] # its annotations are set below

    takes.__annotations__ = {"pet": kind}
    returns.__annotations__ = {"return": kind}
    app = Perdure("sqlite:///never-opened.db")
    with pytest.raises(TypeError, match="takes: the parameter pet cannot be read from JSON: Type unions"):
        app.task(takes)
    with pytest.raises(TypeError, match="returns: the result cannot be read from JSON: Type unions"):
        app.task(returns)
    assert not app.kinds


def test_a_function_may_name_classes_that_follow_and_never_return() -> None:
    @dataclass
    class Cart:
        lines: list[Line]  # type: ignore[name-defined]  # noqa: F821 - that is the point

    def pay(cart: Cart) -> NoReturn:  # noqa: ARG001 - only its signature matters
        raise PermissionError

    pay.__annotations__ = {"cart": Cart, "return": NoReturn}
    assert arguments_of(pay).required == {"cart"}
