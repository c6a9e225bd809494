"""`perdure preview`: what a retry policy would do, drawn as a timeline."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from perdure import client
from perdure.cli.options import ConfigFlag, DatabaseFlag, JsonFlag, UrlFlag, fail, load_settings
from perdure.cli.target import Target
from perdure.clock import SystemClock
from perdure.domain.durations import show_duration
from perdure.domain.errors import Invalid
from perdure.domain.policy import Jitter, RetryPolicy
from perdure.domain.preview import Preview, PreviewedRetry

NARROWEST_BAR = 10
WIDEST_BAR = 36


@dataclass(frozen=True, slots=True)
class _Pen:
    """What bars are drawn with."""

    wait: str
    band: str
    mark: str


_PEN = _Pen("·", "━", "●")
_PLAIN_PEN = _Pen(".", "=", "o")


def preview(
    policy: Annotated[str, typer.Argument(help="JSON, @file with JSON, or the name of a configured policy.")],
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    url: UrlFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what a retry policy would do. Needs no server and no database; a server knows its own named policies."""
    target = Target(config, database_url, url, as_json)
    try:
        given = read_policy(policy)
    except ValueError as error:
        fail(str(error))
    if target.server is None:
        shown = _preview_here(given, config, database_url)
    else:
        shown = _as_ours(target.run(lambda client: client.preview(given)))
    if as_json:
        print(json.dumps(shown.to_json()))
    else:
        draw(shown, Console())


def _preview_here(given: Mapping[str, Any] | str, config: Path | None, database_url: str | None) -> Preview:
    from perdure.engine.policies import policies_from, preview_policy

    policies = policies_from(load_settings({"server.database_url": database_url}, config))
    try:
        return preview_policy(given, policies, SystemClock().now())
    except Invalid as error:
        fail("The policy has problems:", *(f"  - {problem}" for problem in error.problems))


def _as_ours(told: client.Preview) -> Preview:
    """What a server has told."""
    timeline = [
        PreviewedRetry(one.attempt, one.delay_secs, one.earliest_secs, one.expected_secs, one.latest_secs)
        for one in told.timeline
    ]
    return Preview(RetryPolicy.from_json(told.policy), tuple(timeline), told.total_span_secs, tuple(told.warnings))


def read_policy(argument: str) -> Mapping[str, Any] | str:
    """What somebody typed: JSON, `@` and a file with JSON, or a name. Raises ValueError with what is wrong."""
    text = argument.strip()
    if text.startswith("@"):
        return _decode(_read_file(Path(text[1:])), f"The file {text[1:]}")
    return _decode(text, "The policy") if text.startswith(("{", "[", '"')) else text


def _read_file(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise ValueError(f"The file {path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"The file {path} must be UTF-8 text.") from error


def _decode(text: str, what: str) -> Mapping[str, Any] | str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is not JSON: {str(error)[:200]}.") from error
    if not isinstance(value, dict | str):
        raise ValueError(f'{what} must be an object such as {{"max_retries": 3}}, or a name.')
    return value


def draw(shown: Preview, console: Console) -> None:
    """Print a preview as people like to see it."""
    lines = [Text(_describe(shown.policy))]
    if shown.timeline:
        lines += [Text(), *_timeline(shown.timeline, console), Text(), Text(_span(shown))]
    lines += [Text(f"Warning: {warning}.", style="yellow") for warning in shown.warnings]
    for line in lines:
        console.print(line, soft_wrap=True)


def _describe(policy: RetryPolicy) -> str:
    if not policy.enabled:
        return "No retries."
    count = f"{policy.max_retries} {'retry' if policy.max_retries == 1 else 'retries'}"
    jitter = policy.jitter.value
    if policy.jitter is Jitter.PROPORTIONAL:
        jitter = f"plus or minus {policy.jitter_ratio * 100:g} %"
    name = "" if policy.name is None else f"{policy.name}: "
    return f"{name}{policy.strategy.value}, {count}, jitter: {jitter}"


def _timeline(timeline: tuple[PreviewedRetry, ...], console: Console) -> list[Text]:
    rows = [_HEADS, *(_cells(retry) for retry in timeline)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    columns = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    width = max(NARROWEST_BAR, min(WIDEST_BAR, console.width - len(columns[0]) - 2))
    end = timeline[-1].latest_secs
    pen = _PLAIN_PEN if console.options.ascii_only else _PEN
    heads = Text(f"{columns[0]}  0s{show_duration(end):>{width - 2}}", style="bold")
    bars = [_bar(retry, end, width, pen) for retry in timeline]
    return [heads, *(Text(f"{cells}  ") + bar for cells, bar in zip(columns[1:], bars, strict=True))]


_HEADS = ("attempt", "delay", "earliest", "expected", "latest")


def _cells(retry: PreviewedRetry) -> tuple[str, ...]:
    moments = (retry.delay_secs, retry.earliest_secs, retry.expected_secs, retry.latest_secs)
    return str(retry.attempt), *(show_duration(seconds) for seconds in moments)


def _bar(retry: PreviewedRetry, end: float, width: int, pen: _Pen) -> Text:
    """The wait up to a retry, the band in which jitter may put it, and the mark where it is expected."""

    def place(seconds: float) -> int:
        return round(seconds / end * (width - 1)) if end else 0

    first, mark, last = place(retry.earliest_secs), place(retry.expected_secs), place(retry.latest_secs)
    bar = Text(pen.wait * first, style="dim")
    bar.append(pen.band * (mark - first), style="cyan")
    bar.append(pen.mark, style="bold green")
    bar.append(pen.band * (last - mark), style="cyan")
    return bar


def _span(shown: Preview) -> str:
    latest = shown.timeline[-1].latest_secs
    text = f"Total span: {show_duration(shown.total_span_secs)}"
    return text if latest == shown.total_span_secs else f"{text}, with jitter at most {show_duration(latest)}"
