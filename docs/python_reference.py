"""The reference of the Python packages, written from their docstrings.

`python docs/python_reference.py > docs/python_reference.md`
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ForwardRef, get_overloads

import perdure
import perdure.client
import perdure.testing
from perdure.app.options import TaskOptions
from perdure.app.policy import More

INTRODUCTION = """\
# Python reference

Every public name with its signature. [Python](python.md), [Python client](client.md) and [Testing](testing.md) show
how they go together. A duration is a number of seconds or text such as `"90s"`, `"1h30m"` or `"7d"`.
"""

PACKAGES = (
    (perdure, "Tasks as functions, batches of them, and what they say about their failures."),
    (perdure.client, "Talking to a server."),
    (perdure.testing, "Time, receivers and crashes for tests; the fixture is called `sim`."),
)
#: The classes that users make by calling them; the others come from methods.
MADE_BY_USERS = ("Perdure", "Final", "Retryable", "RetryAfter", "AsyncClient")
SAME_METHODS = "It is made like `AsyncClient`, and has the same methods without `await`.\n"
#: What is taken as keyword arguments, and by whom.
OPTIONS = (
    (TaskOptions, "Options of a task", "What `app.task(…)` and `task.options(…)` take."),
    (More, "Options of a policy", "What every method of `Retry` takes besides what is named in its signature."),
)


@dataclass(frozen=True, slots=True)
class _Source:
    """Stands for an annotation and shows it as it is written."""

    text: str

    def __repr__(self) -> str:
        return self.text


def render_reference() -> str:
    parts = [INTRODUCTION]
    for package, description in PACKAGES:
        parts.append(f"## {package.__name__}\n\n{description}\n")
        parts.extend(_render_name(package, name) for name in package.__all__)
        if package is perdure:
            parts.extend(_render_options(*options) for options in OPTIONS)
    return "\n".join(parts)


def _render_name(package: ModuleType, name: str) -> str:
    one = getattr(package, name)
    title = f"### {package.__name__}.{name}\n"
    made = [_signatures(name, one)] if name in MADE_BY_USERS else []
    members = [SAME_METHODS] if one is perdure.client.Client else _render_members(one)
    return "\n".join([title, *made, _documentation(one), *members])


def _render_members(one: type) -> Iterator[str]:
    fields = list(_fields(one))
    if fields:
        yield "\n".join(f"- `{name}: {annotation}`" for name, annotation in fields) + "\n"
    for name, member in public_members(one):
        if isinstance(member, property):
            yield f"**`{name}: {inspect.signature(_getter(member)).return_annotation}`**\n\n{_documentation(member)}"
        else:
            yield f"{_signatures(name, member)}\n{_documentation(member)}"


def _getter(member: property) -> Callable[..., Any]:
    assert member.fget is not None
    return member.fget


def public_members(one: type) -> Iterator[tuple[str, Any]]:
    """The methods and properties that a class defines for others, in the order in which it does."""
    for name, member in vars(one).items():
        if not name.startswith("_") and isinstance(member, property | classmethod | staticmethod):
            yield name, getattr(one, name) if not isinstance(member, property) else member
        elif not name.startswith("_") and inspect.isfunction(member):
            yield name, member


def _fields(one: type) -> Iterator[tuple[str, str]]:
    for base in reversed(one.__mro__):
        if base.__module__.startswith("perdure.") and not issubclass(base, Exception):
            for name, annotation in vars(base).get("__annotations__", {}).items():
                if not name.startswith("_"):
                    yield name, _text(annotation)


def _text(annotation: Any) -> str:
    return annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else str(annotation)


def _signatures(name: str, one: Any) -> str:
    lines = [_signature(name, way) for way in get_overloads(one) or [one]]
    return "\n".join(["```text", *lines, "```", ""])


def _signature(name: str, one: Any) -> str:
    signature = inspect.signature(one)
    parameters = [
        parameter.replace(annotation=_Source(str(parameter.annotation)))
        for parameter in signature.parameters.values()
        if not parameter.name.startswith("_") and parameter.name != "self"
    ]
    call = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    if inspect.isclass(one):
        return f"{name}{call}"
    marks = "async " if inspect.iscoroutinefunction(one) else ""
    return f"{marks}{name}{call} -> {signature.return_annotation}"


def _documentation(one: Any) -> str:
    text = vars(one).get("__doc__") if inspect.isclass(one) else one.__doc__
    assert text, f"{one} has no docstring"
    return inspect.cleandoc(text) + "\n"


def _render_options(one: type, title: str, description: str) -> str:
    lines = [f"- `{name}: {_text(annotation)}`" for name, annotation in one.__annotations__.items()]
    return "\n".join([f"### {title}\n", f"{description} {inspect.getdoc(one)}\n", *lines, ""])


if __name__ == "__main__":
    sys.stdout.write(render_reference())
