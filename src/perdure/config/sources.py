"""Where values come from: the file, the environment, the flags. Each adds to one draft, later ones win."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from perdure.config.declare import Section, Setting, Table, ValueType
from perdure.config.problems import describe_problem, looks_secret, show_value
from perdure.config.settings import SECTIONS, SETTINGS, TABLES
from perdure.config.values import read_text, read_value

PREFIX = "PERDURE_"
SECRET_PREFIX = "PERDURE_SECRET_"
FILE_VARIABLE = "PERDURE_CONFIG"

OTHER_VARIABLES = frozenset({FILE_VARIABLE, "PERDURE_URL"})
"""Variables with our prefix that are not settings of a server."""

OTHER_PREFIXES = ("PERDURE_TEST_", SECRET_PREFIX)

_BY_NAME = {setting.name: setting for setting in SETTINGS}
_TABLE_BY_NAME = {table.name: table for table in TABLES}
_SECTION_BY_NAME = {section.name: section for section in SECTIONS}


@dataclass
class Draft:
    """What the sources have said so far: values, where they came from, and what is wrong."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def keep(self, setting: Setting, value: Any, source: str) -> None:
        """Take a value; it replaces what an earlier source said."""
        self.values[setting.name] = value
        self.sources[setting.name] = source
        self.opened.add(setting.section)

    def refuse(self, setting: Setting, raw: object, source: str, complaint: str) -> None:
        """Report a value that cannot be used."""
        self.broken.add(setting.name)
        self.opened.add(setting.section)
        # Of a database's URL only the password is secret, and show_value hides it.
        hidden = setting.declaration.secret and setting.value_type is ValueType.TEXT_LIST
        self.complain(setting.name, raw, source, complaint, hidden=hidden)

    def complain(self, name: str, raw: object, source: str, complaint: str, *, hidden: bool = False) -> None:
        """Report a problem with anything in a source."""
        self.problems.append(describe_problem(name, show_value(raw, hidden=hidden), source, complaint))


def read_document(draft: Draft, document: Mapping[str, object], source: str) -> None:
    """Take the values of a parsed file."""
    for name, content in document.items():
        section, table = _SECTION_BY_NAME.get(name), _TABLE_BY_NAME.get(name)
        if section is None and table is None:
            draft.complain(name, content, source, _unknown_section(name), hidden=looks_secret(name))
        elif not isinstance(content, Mapping):
            draft.complain(name, content, source, f"must be a table, written as [{name}]", hidden=looks_secret(name))
        elif table is not None:
            _read_table(draft, table, content, source)
        elif section is not None:
            _read_section(draft, section, content, source)


def read_environment(draft: Draft, environ: Mapping[str, str]) -> None:
    """Take the values of the environment; a variable that is empty counts as not set."""
    present = {name: text for name, text in environ.items() if text.strip()}
    for setting in SETTINGS:
        names = [name for name in setting.environment_names if name in present]
        found = [(name, _take(draft, setting, present[name], f"environment {name}", read_text)) for name in names]
        if len({repr(value) for _, value in found if value is not None}) > 1:
            shown = " and ".join(f"{name} = {show_value(present[name])}" for name, _ in found)
            draft.problems.append(f"{setting.name} is set differently by {shown} (environment): set only one of them")
    _read_secret_variables(draft, present)
    _report_unknown_variables(draft, present)


def read_flags(draft: Draft, flags: Mapping[str, object]) -> None:
    """Take the values of flags, by dotted name; None means that the flag was not given."""
    for name, raw in flags.items():
        if raw is None:
            continue
        setting = _BY_NAME.get(name)
        if setting is None:
            complaint = f"no such setting{_did_you_mean(name, list(_BY_NAME))}"
            draft.complain(name, raw, "flag", complaint, hidden=looks_secret(name))
            continue
        source = f"flag {setting.declaration.flag or name}"
        if isinstance(raw, str):
            _take(draft, setting, raw, source, read_text)
        else:
            _take(draft, setting, raw, source, read_value)


def _take(draft: Draft, setting: Setting, raw: Any, source: str, read: Callable[[Setting, Any], Any]) -> Any:
    try:
        value = read(setting, raw)
    except ValueError as error:
        draft.refuse(setting, raw, source, str(error))
        return None
    draft.keep(setting, value, source)
    return value


def _read_section(draft: Draft, section: Section, content: Mapping[str, object], source: str) -> None:
    draft.opened.add(section.name)
    for key, raw in content.items():
        name = f"{section.name}.{key}"
        setting, table = _BY_NAME.get(name), _TABLE_BY_NAME.get(name)
        if setting is not None:
            _take(draft, setting, raw, source, read_value)
        elif table is None:
            draft.complain(name, raw, source, _unknown_key(section.name, key), hidden=looks_secret(key))
        elif isinstance(raw, Mapping):
            _read_table(draft, table, raw, source)
        else:
            draft.complain(name, raw, source, f"must be a table, with entries written as {table.entry}")


def _read_table(draft: Draft, table: Table, content: Mapping[str, object], source: str) -> None:
    entries, complaints = table.read(table.name, content)
    draft.values.setdefault(table.name, {}).update(entries)
    draft.sources.update({f"{table.name}.{key}": source for key in entries})
    for name, raw, text in complaints:
        draft.complain(name, raw, source, text, hidden=table.secret)


def _read_secret_variables(draft: Draft, present: Mapping[str, str]) -> None:
    table = _TABLE_BY_NAME["secrets"]
    for variable, text in present.items():
        if variable.startswith(SECRET_PREFIX):
            _read_table(draft, table, {variable.removeprefix(SECRET_PREFIX): text}, f"environment {variable}")


def _report_unknown_variables(draft: Draft, present: Mapping[str, str]) -> None:
    known = [name for setting in SETTINGS for name in setting.environment_names if name.startswith(PREFIX)]
    exempt = OTHER_VARIABLES.union(known)
    for variable in sorted(present):
        if variable.startswith(PREFIX) and variable not in exempt and not variable.startswith(OTHER_PREFIXES):
            hint = _did_you_mean(variable, known) or "; `perdure config show` lists the settings"
            complaint = f"no such setting{hint}"
            draft.complain(variable, present[variable], "environment", complaint, hidden=looks_secret(variable))


def _unknown_section(name: str) -> str:
    """What to say of a key at the top of the file; perhaps its section was forgotten."""
    elsewhere = _settings_called(name)
    if elsewhere:
        return f"no such section; did you mean {elsewhere}?"
    sections = [*_SECTION_BY_NAME, *(table for table in _TABLE_BY_NAME if "." not in table)]
    return "no such section" + (_did_you_mean(name, sections) or f"; there are {', '.join(sections)}")


def _unknown_key(section: str, key: str) -> str:
    """What to say of a key that its section does not have; perhaps it belongs to another."""
    elsewhere = _settings_called(key)
    if elsewhere:
        return f"no such setting; did you mean {elsewhere}?"
    siblings = [name for name in (*_BY_NAME, *_TABLE_BY_NAME) if name.startswith(f"{section}.")]
    keys = ", ".join(name.removeprefix(f"{section}.") for name in siblings)
    return "no such setting" + (_did_you_mean(f"{section}.{key}", siblings) or f"; [{section}] has {keys}")


def _settings_called(key: str) -> str:
    return " or ".join(name for name in (*_BY_NAME, *_TABLE_BY_NAME) if name.endswith(f".{key}"))


def _did_you_mean(name: str, candidates: list[str]) -> str:
    close = get_close_matches(name, candidates, n=1, cutoff=0.75)
    return f"; did you mean {close[0]}?" if close else ""
