"""Tasks submitted over HTTP to a real server process: one by one from many clients, and in batches."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from bench.drafts import PAYLOAD

CLIENTS = 64
BATCH = 1000


def _body(count: int) -> bytes:
    return msgspec.json.encode(
        [{"id": f"t{number}", "name": "bench", "kind": "noop", "payload": PAYLOAD} for number in range(count)]
    )


@asynccontextmanager
async def serving(url: str) -> AsyncIterator[str]:
    """A server process on a free port, without an engine: only submissions are measured."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from perdure.cli import main; main()", "serve", "--no-engine"),
        *("--port", "0", "--database-url", url),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        while not (found := re.search(rb"listening\s+(http://\S+)", line := await process.stderr.readline())):
            if not line:
                raise RuntimeError("the server did not start")
        yield found[1].decode()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def measure_submissions(url: str, single: int, batches: int) -> tuple[float, float]:
    """(tasks per second one by one from 64 clients, tasks per second in batches of 1,000)."""
    async with serving(url) as address, aiohttp.ClientSession() as session:
        one, many = _body(1), _body(BATCH)
        await _post_all(session, f"{address}/task", one, CLIENTS)
        alone = single / await _post_all(session, f"{address}/task", one, single)
        together = batches * BATCH / await _post_all(session, f"{address}/task", many, batches, clients=4)
    return alone, together


async def _post_all(session: aiohttp.ClientSession, url: str, body: bytes, count: int, clients: int = CLIENTS) -> float:
    left = iter(range(count))

    async def client() -> None:
        for _ in left:
            async with session.post(url, data=body) as answer:
                await answer.read()
                if answer.status != 201:
                    raise RuntimeError(f"HTTP {answer.status}")

    began = time.perf_counter()
    await asyncio.gather(*[client() for _ in range(clients)])
    return time.perf_counter() - began
