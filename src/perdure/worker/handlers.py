"""What a worker knows of a kind: the function, how it runs, and how its arguments and result are read and written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Mode(StrEnum):
    """Where a function runs."""

    LOOP = "loop"
    """An async function, in the worker's event loop."""
    THREAD = "thread"
    PROCESS = "process"


class Unfit(Exception):
    """Stored arguments, or what came back, are not what the function says; `code` says which."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Handler:
    kind: str
    mode: Mode
    function: Callable[..., Any]
    decode: Callable[[str | None], dict[str, Any]]
    """From a stored payload to arguments; raises `Unfit`."""
    encode: Callable[[Any], str | None]
    """From what the function returned to the JSON that is stored; raises `Unfit`."""
    context_parameter: str | None = None
    """The parameter that takes the `Context`, if there is one."""
    address: str = ""
    """`module:name` under which another process finds the function."""
