"""Runs the Python of a page, block after block in one module, as `python -m asyncio` runs what is typed."""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from tests.docs.markdown import Block

#: A block that begins so is a file to be saved.
_FILE = re.compile(r"# (?P<name>\w+\.py)\n")


def file_name(block: Block) -> str | None:
    """Under which name a reader saves the block; None if it is to be run."""
    match = _FILE.match(block.text) if block.language == "python" else None
    return None if match is None else match["name"]


def save(block: Block, folder: Path) -> None:
    name = file_name(block)
    assert name is not None
    (folder / name).write_text(block.text, "utf-8")


class PythonBlocks:
    """One module for all blocks of a page. What they save in the folder can be imported."""

    def __init__(self, name: str, folder: Path) -> None:
        self._module = ModuleType(name)
        self._folder = folder
        self._known = set(sys.modules)

    def __getitem__(self, name: str) -> Any:
        """What the blocks call by this name."""
        return getattr(self._module, name)

    async def run(self, block: Block) -> str:
        """Save the block or run it; returns what it prints."""
        if file_name(block) is not None:
            save(block, self._folder)
            return ""
        code = compile(block.text, str(block), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        with redirect_stdout(io.StringIO()) as printed:
            awaitable = eval(code, vars(self._module))
            if inspect.iscoroutine(awaitable):
                await awaitable
        return printed.getvalue()

    def __enter__(self) -> Self:
        sys.modules[self._module.__name__] = self._module
        sys.path.insert(0, str(self._folder))
        return self

    def __exit__(self, *exception: object) -> None:
        sys.path.remove(str(self._folder))
        for name in [name for name in sys.modules if name not in self._known]:
            file = getattr(sys.modules[name], "__file__", None)
            if name == self._module.__name__ or (file is not None and Path(file).parent == self._folder):
                del sys.modules[name]
