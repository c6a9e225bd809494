"""Reading the configuration: flags over environment over file over defaults."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perdure.config.consistency import find_contradictions
from perdure.config.declare import Section
from perdure.config.problems import ConfigurationError
from perdure.config.settings import SECTIONS, TABLES, Settings
from perdure.config.sources import FILE_VARIABLE, Draft, read_document, read_environment, read_flags

DEFAULT_FILE = Path("perdure.toml")

_NO_FLAGS: Mapping[str, object] = MappingProxyType({})


def load(
    flags: Mapping[str, object] = _NO_FLAGS,
    environ: Mapping[str, str] = os.environ,
    path: Path | None = None,
) -> Settings:
    """Read the settings, or raise ConfigurationError with every problem there is.

    `flags` maps dotted names (`server.port`) to values, None for a flag that was not given. `path` is the
    file of `--config`; without it PERDURE_CONFIG names the file, else it is `perdure.toml` if that exists.
    """
    draft = Draft()
    _read_file(draft, environ, path)
    read_environment(draft, environ)
    read_flags(draft, flags)
    settings = _build(draft)
    problems = draft.problems + find_contradictions(settings, draft.broken)
    if problems:
        raise ConfigurationError(problems)
    return settings


def _read_file(draft: Draft, environ: Mapping[str, str], path: Path | None) -> None:
    variable = environ.get(FILE_VARIABLE, "").strip()
    if path is not None:
        file, asked_by = path, "flag --config"
    elif variable:
        file, asked_by = Path(variable), f"environment {FILE_VARIABLE}"
    elif DEFAULT_FILE.is_file():
        file, asked_by = DEFAULT_FILE, "the default"
    else:
        return
    try:
        document = tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        reason = error.strerror or str(error)
        draft.problems.append(f"config = {file} ({asked_by}): must be a file that can be read: {reason}")
    except ValueError as error:
        draft.problems.append(f"config = {file} ({asked_by}): must be a TOML file in UTF-8: {error}")
    else:
        read_document(draft, document, f"file {file}")


def _build(draft: Draft) -> Settings:
    parts: dict[str, Any] = {section.name: _build_section(draft, section) for section in SECTIONS}
    parts |= {table.name: draft.values.get(table.name, {}) for table in TABLES if "." not in table.name}
    settings = Settings(**parts, sources=draft.sources)
    return _apply_backoff_ceiling(settings)


def _build_section(draft: Draft, section: Section) -> Any:
    if section.optional and section.name not in draft.opened:
        return None
    names = [setting.name for setting in section.settings] + [table.name for table in section.tables]
    return section.type(**{name.rpartition(".")[2]: draft.values[name] for name in names if name in draft.values})


def _apply_backoff_ceiling(settings: Settings) -> Settings:
    """With a [backoff] section its maximum is the limit of delays, unless a limit is set apart."""
    if settings.backoff is None:
        return settings
    ceiling: Any = settings.backoff.max_backoff_seconds
    unset = [key for key in ("max_delay_limit", "retry_after_limit") if f"retry.{key}" not in settings.sources]
    return replace(
        settings,
        retry=replace(settings.retry, **dict.fromkeys(unset, ceiling)),
        sources={**settings.sources, **{f"retry.{key}": "backoff.max_backoff_seconds" for key in unset}},
    )
