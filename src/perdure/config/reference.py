"""The reference page, written from the list: `python -m perdure.config.reference > docs/configuration.md`."""

from __future__ import annotations

import inspect
import sys

from perdure.config.declare import Section, Setting, Table, ValueType
from perdure.config.settings import SECTIONS, TABLES
from perdure.config.show import render_value
from perdure.config.values import format_number

INTRODUCTION = """\
# Configuration

Every setting has a default, so nothing needs to be configured to start. A setting is taken from the first
of these that has it:

1. a flag of `perdure serve`,
2. an environment variable,
3. the configuration file,
4. its default.

The file is TOML. It is the one named by `--config`, else the one named by `PERDURE_CONFIG`, else
`perdure.toml` in the working directory if there is one.

Every setting can be set by the variable `PERDURE_<SECTION>_<KEY>`; some have shorter names too, given
below. Two names of one setting must not disagree. A variable that is empty counts as not set. In variables,
truth values are `true`/`false`, `1`/`0`, `yes`/`no` or `on`/`off`, and lists are separated by commas. A
duration is a number of seconds or text such as `"90s"`, `"1h30m"` or `"7d"`.

An unknown key, an unknown `PERDURE_` variable or a bad value stops the start, with one message for each
problem. `perdure config show` prints the settings in effect and where each came from, with passwords and
secrets masked.

## Example

```toml
[server]
database_url = "postgresql://perdure@db.internal/perdure"
host_url = "https://perdure.example.com"

[webhooks]
concurrency = 256
allowed = ["10.20.0.0/16", "billing.internal"]

[retention]
days = 90

[retry.policies.bank]           # "retry": "bank" in a task
max_retries = 8
initial_delay_secs = 30

[retry.kinds.etl]               # tasks of this kind that bring no policy of their own
max_retries = 3

[classification]
"404" = "retryable"

[limits.kinds.etl]
max_concurrency = 3
```

## One backoff for everything

Without a `[backoff]` section a policy that names no delays starts at 5 seconds and doubles up to 300, give
or take 10 %. With the section, its values are the defaults of every policy, and no delay that is computed
or asked for by a server exceeds `max_backoff_seconds`, unless `retry.max_delay_limit` or
`retry.retry_after_limit` is set apart. Keys that are left out have the values shown here. Custom schedules
say their delays outright and are not capped.

```toml
[backoff]
default_backoff_seconds = [1, 2, 4, 8, 16, 32]
max_backoff_seconds = 60
backoff_multiplier = 2.0
jitter_enabled = true
jitter_max_percentage = 0.1
```

## Secrets

`${secret:NAME}` in a header of a webhook is replaced when the request is sent. The value is looked up under
exactly this name, in the variable `PERDURE_SECRET_NAME` or in the file:

```toml
[secrets]
NAME = "value"
```

## Settings
"""


def render_reference() -> str:
    """The whole page, as Markdown."""
    parts = [INTRODUCTION]
    parts += [_render_section(section) for section in SECTIONS]
    parts += [_render_table(table, "###") for table in TABLES if "." not in table.name]
    return "\n".join(parts)


def _render_section(section: Section) -> str:
    lines = [f"### [{section.name}]", "", inspect.cleandoc(section.type.__doc__ or ""), ""]
    if section.settings:
        lines += ["| key | type | default | environment | flag | meaning |", "|---|---|---|---|---|---|"]
        lines += [_render_row(setting) for setting in section.settings]
        lines.append("")
    return "\n".join(lines) + "".join("\n" + _render_table(table, "####") for table in section.tables)


def _render_row(setting: Setting) -> str:
    declaration = setting.declaration
    cells = [
        f"`{setting.key}`",
        _render_type(setting),
        declaration.default_text or f"`{render_value(setting, setting.default)}`",
        "<br>".join(f"`{name}`" for name in setting.environment_names),
        f"`{declaration.flag}`" if declaration.flag else "",
        declaration.description,
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _render_type(setting: Setting) -> str:
    if setting.value_type is ValueType.CHOICE:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    if setting.value_type in (ValueType.BOOLEAN, ValueType.TEXT, ValueType.TEXT_LIST):
        return str(setting.value_type)
    low, high = setting.declaration.within
    return f"{setting.value_type}, {format_number(low)} … {format_number(high)}"


def _render_table(table: Table, heading: str) -> str:
    return f"{heading} {table.entry}\n\n{table.description}\n"


if __name__ == "__main__":
    sys.stdout.write(render_reference())
