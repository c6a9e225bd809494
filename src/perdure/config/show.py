"""The effective settings, for people: every value and where it came from, secrets masked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from perdure.config.declare import Section, Setting, Table, ValueType
from perdure.config.problems import MASK, mask_password
from perdure.config.settings import SECTIONS, TABLES, Settings
from perdure.config.values import format_number

Row = tuple[str, str, str]


def render_settings(settings: Settings) -> list[Row]:
    """Name, value as shown, and source of every setting and of every entry of a table."""
    rows: list[Row] = []
    for section in SECTIONS:
        rows += _render_section(settings, section)
    for table in TABLES:
        if "." not in table.name:
            rows += _render_table(settings, table, getattr(settings, table.name))
    return rows


def render_value(setting: Setting, value: Any) -> str:
    """A value as it would stand in the file, without what is secret."""
    match setting.value_type:
        case ValueType.BOOLEAN:
            return "true" if value else "false"
        case ValueType.INTEGER | ValueType.NUMBER | ValueType.DURATION:
            return format_number(value)
        case ValueType.TEXT_LIST if setting.declaration.secret:
            return "[" + ", ".join(json.dumps(MASK) for _ in value) + "]"
        case ValueType.TEXT_LIST:
            return "[" + ", ".join(json.dumps(item, ensure_ascii=False) for item in value) + "]"
        case ValueType.DURATION_LIST:
            return "[" + ", ".join(format_number(item) for item in value) + "]"
        case _:
            return mask_password(value) if setting.declaration.secret else str(value)


def _render_section(settings: Settings, section: Section) -> Iterator[Row]:
    content = getattr(settings, section.name)
    if content is None:
        yield section.name, "not set", "default"
        return
    for setting in section.settings:
        value = getattr(content, setting.key)
        shown = _render_worked_out(settings, setting) if value is None else render_value(setting, value)
        yield setting.name, shown, settings.source_of(setting.name)
    for table in section.tables:
        yield from _render_table(settings, table, getattr(content, table.name.rpartition(".")[2]))


def _render_worked_out(settings: Settings, setting: Setting) -> str:
    match setting.name:
        case "server.host_url":
            return settings.callback_url()
        case "webhooks.allow_loopback":
            return "true" if settings.loopback_allowed else "false"
        case _:
            return f"({setting.declaration.default_text})"


def _render_table(settings: Settings, table: Table, entries: Mapping[str, Any]) -> Iterator[Row]:
    for key, value in entries.items():
        name = f"{table.name}.{key}"
        # TOML knows dates, JSON does not.
        shown = MASK if table.secret else json.dumps(value, ensure_ascii=False, default=str)
        yield name, shown, settings.source_of(name)
