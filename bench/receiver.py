"""`python -m bench.receiver`: takes webhooks and answers 200 `{}`; says its address first."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvloop
from aiohttp import web


@asynccontextmanager
async def receiving() -> AsyncIterator[str]:
    """The address of a receiver in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.receiver", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        said = (await process.stdout.readline()).decode()
        if not re.match("http://", said):
            raise RuntimeError("the receiver did not start")
        yield said.strip()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _answer(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(body=b"{}", content_type="application/json")


async def _receive() -> None:
    application = web.Application()
    application.router.add_post("/", _answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_receive())
