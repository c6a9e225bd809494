"""A batch drawn as a tree. Each task stands once, below the first one that it waits for; others are named beside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from rich.text import Text

from perdure.cli.show import clean, status_text, untrusted
from perdure.client import Dag, ShortTask

NAMED_PARENTS = 3


@dataclass(frozen=True, slots=True)
class _Pen:
    """What branches are drawn with."""

    branch: str
    last: str
    line: str
    blank: str


_PEN = _Pen("├─ ", "└─ ", "│  ", "   ")
_PLAIN_PEN = _Pen("|- ", "`- ", "|  ", "   ")


@dataclass(frozen=True, slots=True)
class _Waits:
    parent: ShortTask
    condition: str


def draw_tree(dag: Dag, *, ascii_only: bool = False) -> Iterator[Text]:
    """One line for each task, in the order of the submission below each parent. Never deeper than the stack allows."""
    pen = _PLAIN_PEN if ascii_only else _PEN
    tasks = {task.id: task for task in dag.tasks}
    waits: dict[str, list[_Waits]] = defaultdict(list)
    for link in dag.links:
        if link.parent_id in tasks:
            waits[link.child_id].append(_Waits(tasks[link.parent_id], link.condition))
    children: dict[str, list[ShortTask]] = defaultdict(list)
    for task in dag.tasks:
        if waits[task.id]:
            children[waits[task.id][0].parent.id].append(task)
    roots = [task for task in dag.tasks if not waits[task.id]]
    waiting = [(task, "", "") for task in reversed(roots)]
    while waiting:
        task, stem, below = waiting.pop()
        yield Text(stem, "dim") + _describe(task, waits[task.id])
        own = children[task.id]
        for index, child in enumerate(reversed(own)):
            end = pen.last if index == 0 else pen.branch
            rest = pen.blank if index == 0 else pen.line
            waiting.append((child, below + end, below + rest))


def _describe(task: ShortTask, waits: list[_Waits]) -> Text:
    line = status_text(task.status) + Text("  ") + untrusted(task.name, "bold") + Text(f"  {task.id}", "dim")
    if task.attempt:
        line.append(f"  attempt {task.attempt}")
    if waits and waits[0].condition != "on_success":
        line.append(f"  ({waits[0].condition})", "italic")
    if len(waits) > 1:
        line.append(f"  (also after {_name(waits[1:])})", "dim")
    return line


def _name(waits: list[_Waits]) -> str:
    shown = [
        clean(one.parent.name) + ("" if one.condition == "on_success" else f" {one.condition}")
        for one in waits[:NAMED_PARENTS]
    ]
    rest = len(waits) - NAMED_PARENTS
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")
