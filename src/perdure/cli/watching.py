"""Following a batch: a live bar on a terminal, one line for each change elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from perdure.cli.show import clean, status_text
from perdure.client import Batch
from perdure.domain.states import LABELS, SHOWN, TERMINAL, Status


def describe_counts(counts: Mapping[str, int]) -> Text:
    """How many tasks show each status, those that none shows left out."""
    shown = [Text(f"{counts[value]} ") + status_text(LABELS[value]) for value in SHOWN if counts.get(value)]
    return Text(", ").join(shown)


def count_ended(counts: Mapping[str, int]) -> int:
    return sum(counts.get(status.value, 0) for status in TERMINAL)


def ended_well(batch: Batch) -> bool:
    """Whether nothing failed and nothing was canceled."""
    return not any(batch.status_counts.get(status, 0) for status in (Status.FAILURE, Status.CANCELED))


async def follow(changes: AsyncIterator[Batch], console: Console | None) -> Batch:
    """The batch as it is at the end; every change on the way is drawn on the console, if there is one."""
    if console is not None and console.is_terminal:
        return await _draw_bar(changes, console)
    latest = None
    async for latest in changes:
        if console is not None:
            ended = count_ended(latest.status_counts)
            line = Text(f"{ended}/{latest.total_tasks}  ") + describe_counts(latest.status_counts)
            console.print(line, soft_wrap=True)
    assert latest is not None, "there is a batch, so there is a first look at it"
    return latest


async def _draw_bar(changes: AsyncIterator[Batch], console: Console) -> Batch:
    latest = None
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _CountsColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        bar = progress.add_task("", total=None)
        async for latest in changes:
            progress.update(
                bar,
                description=clean(latest.name or "Batch"),
                total=latest.total_tasks,
                completed=count_ended(latest.status_counts),
                counts=describe_counts(latest.status_counts),
            )
    assert latest is not None, "there is a batch, so there is a first look at it"
    return latest


class _CountsColumn(ProgressColumn):
    """How many tasks show each status."""

    def render(self, task: Task) -> Text:
        counts = task.fields.get("counts")
        return counts if isinstance(counts, Text) else Text()
