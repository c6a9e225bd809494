"""Wrong uses of the public API are found by a type checker."""

from __future__ import annotations

from pathlib import Path

from mypy import api

WRONG = {
    "an unknown option": "@app.task(retrys=3)\nasync def f() -> None: ...",
    "an unknown member of a policy": "Retry.fixed('1s', max_retries=1, jiter='full')",
    "a policy without its budget": "Retry.exponential('1s')",
    "a result of another type": "async def use() -> str:\n    return await (await double.submit(1)).result()",
    "a priority that is no number": "double.options(priority='high')",
}
PROGRAM = """
from perdure import Perdure, Retry

app = Perdure()


@app.task
async def double(number: int) -> int:
    return 2 * number


"""


RIGHT = "async def use() -> int:\n    return await (await double.submit(1)).result()\n"


def test_wrong_uses_are_found_and_right_ones_pass(tmp_path: Path) -> None:
    for number, text in enumerate([RIGHT, *WRONG.values()]):
        (tmp_path / f"program_{number}.py").write_text(PROGRAM + text)

    found, _, _ = api.run(["--strict", "--no-incremental", "--follow-imports=silent", str(tmp_path)])

    complaints = [line for line in found.splitlines() if ": error: " in line]
    assert not any("program_0.py" in line for line in complaints), found
    for number, use in enumerate(WRONG, 1):
        assert any(f"program_{number}.py" in line for line in complaints), f"{use} is not found: {found}"
