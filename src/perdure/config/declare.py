"""How a setting is declared: a dataclass field that carries everything else that is known about it.

The sections in `settings.py` are ordinary frozen dataclasses, so a type checker knows every value; the
metadata of their fields is the list from which the file, the environment, the flags and the reference follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from enum import StrEnum
from math import inf
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

T = TypeVar("T")

UNBOUNDED = (-inf, inf)

Seconds = Annotated[float, "duration"]
"""A duration: written as a number of seconds or as text such as "1h30m", kept as seconds."""


class ValueType(StrEnum):
    """What a value is; the text is how the reference calls it."""

    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TEXT = "text"
    CHOICE = "choice"
    DURATION = "duration"
    TEXT_LIST = "list of text"
    DURATION_LIST = "list of durations"


class Complaint(NamedTuple):
    """An entry of a table that cannot be used."""

    name: str
    value: object
    text: str


TableReader = Callable[[str, Mapping[str, object]], tuple[dict[str, Any], list[Complaint]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What the author of a setting writes down besides its name, type and default."""

    description: str
    within: tuple[float, float] = UNBOUNDED
    capital: str | None = None
    bare: bool = False
    flag: str | None = None
    secret: bool = False
    default_text: str | None = None
    check: Callable[[Any], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One entry of the list of settings."""

    section: str
    key: str
    value_type: ValueType
    default: Any
    choices: tuple[str, ...]
    declaration: Declaration

    @property
    def name(self) -> str:
        """The dotted name, as in `server.port`."""
        return f"{self.section}.{self.key}"

    @property
    def environment_names(self) -> tuple[str, ...]:
        """Every variable that sets it, the canonical one first."""
        names = [f"PERDURE_{self.section}_{self.key}".upper()]
        if self.declaration.capital is not None:
            names.append(f"PERDURE_{self.declaration.capital}")
            if self.declaration.bare:
                names.append(self.declaration.capital)
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A part of the file whose keys are names that the operator chooses."""

    name: str
    entry: str
    description: str
    read: TableReader
    secret: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A dataclass of settings and tables; an optional one is None until something in it is set."""

    name: str
    type: type[Any]
    optional: bool
    settings: tuple[Setting, ...]
    tables: tuple[Table, ...]


def setting(
    default: T,
    description: str,
    *,
    within: tuple[float, float] = UNBOUNDED,
    capital: str | None = None,
    bare: bool = False,
    flag: str | None = None,
    secret: bool = False,
    default_text: str | None = None,
    check: Callable[[Any], None] | None = None,
) -> T:
    """Declare a setting as a dataclass field.

    `within` bounds a number, a duration, or each item of a list of durations, both ends included. `capital`
    is its name in capitals: read from `PERDURE_<capital>`, and if `bare` also without the prefix.
    `default_text` describes a default that is worked out at start. `check` raises ValueError with what is
    allowed.
    """
    declaration = Declaration(
        description=description,
        within=within,
        capital=capital,
        bare=bare,
        flag=flag,
        secret=secret,
        default_text=default_text,
        check=check,
    )
    return field(default=default, repr=not secret, metadata={"setting": declaration})


def table(entry: str, description: str, read: TableReader, *, secret: bool = False) -> Any:
    """Declare a table of the operator's own names; `entry` is how one is written in the file."""
    metadata = {"table": {"entry": entry, "description": description, "read": read, "secret": secret}}
    return field(default_factory=dict, repr=not secret, metadata=metadata)


def collect_sections(settings_type: type[Any]) -> tuple[Section, ...]:
    """The sections of a settings class, in order."""
    hints = get_type_hints(settings_type)
    sections = []
    for section_field in fields(settings_type):
        section_type, optional = _strip_none(hints[section_field.name])
        if is_dataclass(section_type):
            sections.append(_read_section(section_field.name, cast("type[Any]", section_type), optional))
    return tuple(sections)


def collect_tables(settings_type: type[Any]) -> tuple[Table, ...]:
    """The tables that stand directly in a settings class."""
    return tuple(_read_table(entry.name, entry) for entry in fields(settings_type) if "table" in entry.metadata)


def _read_section(name: str, section_type: type[Any], optional: bool) -> Section:
    hints = get_type_hints(section_type, include_extras=True)
    entries = fields(section_type)
    return Section(
        name=name,
        type=section_type,
        optional=optional,
        settings=tuple(
            _read_setting(name, entry, hints[entry.name]) for entry in entries if "setting" in entry.metadata
        ),
        tables=tuple(_read_table(f"{name}.{entry.name}", entry) for entry in entries if "table" in entry.metadata),
    )


def _read_setting(section: str, entry: Field[Any], annotation: Any) -> Setting:
    value_type, choices = _classify(annotation)
    return Setting(
        section=section,
        key=entry.name,
        value_type=value_type,
        default=entry.default,
        choices=choices,
        declaration=entry.metadata["setting"],
    )


def _read_table(name: str, entry: Field[Any]) -> Table:
    return Table(name=name, **entry.metadata["table"])


def _strip_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in (Union, UnionType):
        members = [member for member in get_args(annotation) if member is not NoneType]
        if len(members) == 1:
            return members[0], True
    return annotation, False


def _classify(annotation: Any) -> tuple[ValueType, tuple[str, ...]]:
    kept, _ = _strip_none(annotation)
    if get_origin(kept) is Literal:
        return ValueType.CHOICE, get_args(kept)
    plain: dict[Any, ValueType] = {
        int: ValueType.INTEGER,
        float: ValueType.NUMBER,
        bool: ValueType.BOOLEAN,
        str: ValueType.TEXT,
        Seconds: ValueType.DURATION,
        tuple[str, ...]: ValueType.TEXT_LIST,
        tuple[Seconds, ...]: ValueType.DURATION_LIST,
    }
    return plain[kept], ()
