"""The Python of the README: its program submits, a worker runs it, and the command line shows it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.docs.markdown import page
from tests.engine.driven import eventually
from tests.system.process import ServerProcess, command, environment, run

LISTING = ("task", "list", "--database-url", "sqlite:///jobs.db")


async def test_it_does_what_the_page_says(tmp_path: Path) -> None:
    readme = page("README.md")
    (program,) = [block for block in readme.blocks if block.language == "python" and "Perdure" in block.text]
    assert all(word in " ".join(readme.text.split()) for word in (" ".join(LISTING), "perdure worker shop:app"))
    (tmp_path / "shop.py").write_text(program.text)
    submitting = await asyncio.create_subprocess_exec(sys.executable, "shop.py", cwd=tmp_path, env=environment())
    assert await submitting.wait() == 0

    async def succeeded() -> bool:
        listed = await run(tmp_path, *LISTING, "--json")
        assert listed.code == 0, listed.error
        return [task["status"] for task in json.loads(listed.out)] == ["Success"]

    async with ServerProcess(tmp_path, program=[*command(), "worker", "shop:app"]) as worker:
        await eventually(succeeded, timeout=60)
        assert await worker.stop() == 0
