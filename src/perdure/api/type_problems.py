"""Finds every mistyped member of a request. Slow and thorough: it runs only after fast decoding has failed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from perdure.domain.checks import TASKS_PER_BATCH, check_batch, check_task, check_wiring
from perdure.domain.drafts import BatchDraft, DependencyDraft, TaskDraft
from perdure.domain.errors import Problem

MOST_PROBLEMS = 10_000
"""Where the search ends: nobody reads further."""

_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "an array"}
_WIRING = re.compile(r"tasks\[\d+\](\.id|\.dependencies.*)?")


class _Enough(Exception):
    """There are more problems than anybody will read."""


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    hint: Any
    required: bool


class _Found(list[Problem]):
    def append(self, problem: Problem) -> None:
        super().append(problem)
        if len(self) >= MOST_PROBLEMS:
            raise _Enough


def find_type_problems(value: Any, shape: Any, path: str = "") -> list[Problem]:
    """Every place in `value` that does not fit `shape`."""
    found = _Found()
    with suppress(_Enough):
        _check(found, value, shape, path)
    return found


def find_batch_problems(value: Any) -> list[Problem]:
    """Every mistyped member of a submission, and the broken rules of those tasks that can be read at all."""
    tasks = value.get("tasks") if isinstance(value, Mapping) else None
    if not isinstance(tasks, list):
        return find_type_problems(value, BatchDraft)
    if len(tasks) > TASKS_PER_BATCH:
        return check_batch(BatchDraft(tasks))
    found = _Found()
    with suppress(_Enough):
        _check(found, {**value, "tasks": []}, BatchDraft, "")
        for position, task in enumerate(tasks):
            _check_one_task(found, f"tasks[{position}]", task)
        if not any(_WIRING.fullmatch(problem.field) for problem in found):
            check_wiring(found, [_wired(task) for task in tasks])
    return found


def _check_one_task(found: _Found, path: str, task: Any) -> None:
    before = len(found)
    _check(found, task, TaskDraft, path)
    if len(found) == before:
        check_task(found, path, msgspec.convert(task, TaskDraft))


def _wired(task: Any) -> TaskDraft:
    """Only what matters for the wiring, which is known to be well typed."""
    dependencies = msgspec.convert(task.get("dependencies"), list[DependencyDraft] | None)
    return TaskDraft(task["id"], "", "", dependencies=dependencies)


def _check(found: _Found, value: Any, hint: Any, path: str) -> None:
    if hint is Any:
        return
    choices = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    choice = next((one for one in choices if _has_type(value, one)), None)
    if choice is None:
        words = [_describe(one) for one in choices if one is not NoneType]
        found.append(Problem(path or "body", f"must be {' or '.join(words)}, is {_name(value)}"))
    elif is_dataclass(choice):
        _check_members(found, value, choice, path)
    elif isinstance(value, list):
        (item_hint,) = get_args(choice)
        for index, item in enumerate(value):
            _check(found, item, item_hint, f"{path}[{index}]")
    elif isinstance(value, dict):
        _, item_hint = get_args(choice)
        if item_hint is not Any:
            for name, item in value.items():
                _check(found, item, item_hint, f"{path}.{name[:80]}")


def _check_members(found: _Found, value: Mapping[str, Any], shape: Any, path: str) -> None:
    for member in _members(shape):
        where = f"{path}.{member.name}" if path else member.name
        given = value.get(member.name)
        if given is not None:
            _check(found, given, member.hint, where)
        elif member.required:
            found.append(Problem(where, "is required"))


@cache
def _members(shape: Any) -> list[_Member]:
    hints = get_type_hints(shape)
    return [
        _Member(field.name, hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(shape)
    ]


def _has_type(value: Any, hint: Any) -> bool:
    kind = get_origin(hint) or hint
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if is_dataclass(kind):
        return isinstance(value, dict)
    return isinstance(value, kind)


def _describe(hint: Any) -> str:
    return _WORDS.get(get_origin(hint) or hint, "an object")


def _name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:.6g}" if isinstance(value, float) else "a number"
    return "text" if isinstance(value, str) else "an array" if isinstance(value, list) else "an object"
