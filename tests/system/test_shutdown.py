"""A server that is told to stop: it finishes what it has begun, and loses nothing that it has acknowledged."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from tests.engine.definitions import task, webhook
from tests.support.receiver import ReceivedRequest, Receiver
from tests.system.client import Client
from tests.system.process import ServerProcess


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_call_under_way_is_finished_and_reports_are_taken_meanwhile(
    tmp_path: Path,
    database_url: str,
    session: aiohttp.ClientSession,
    receiver: Receiver,
    number: signal.Signals,
) -> None:
    answer = asyncio.Event()

    async def accept_later(_: ReceivedRequest) -> web.Response:
        await answer.wait()
        return web.Response()

    receiver.answer("/slow", accept_later)
    async with ServerProcess(tmp_path, "--database-url", database_url) as server:
        client = Client(session, await server.address())
        batch = await client.submit(
            [
                task("quick", on_start=webhook(receiver.url("/quick"))),
                task("slow", on_start=webhook(receiver.url("/slow"))),
            ]
        )
        await receiver.wait_for(2)

        server.send(number)

        await server.says("stopping: no new claims")
        assert (await client.request("GET", "/ready")).status == 503
        reported = await client.expect(200, "PATCH", f"/task/{batch.ids['quick']}", {"status": "Success"})
        assert reported["status"] == "Success"
        late = await client.submit([task("late", on_start=webhook(receiver.url("/late")))])
        answer.set()
        assert await server.ended() == 0
    assert "everything acknowledged is on disk" in server.output
    assert receiver.requests_to("/late") == []

    async with ServerProcess(tmp_path, "--database-url", database_url) as server:
        client = Client(session, await server.address())
        assert await client.statuses(batch) == {"quick": "Success", "slow": "Running"}
        await receiver.wait_for(1, "/late")
        assert len(receiver.requests) == 3
        assert set(await client.counts(late)) <= {"claimed", "running"}
        assert await server.stop() == 0


async def test_a_count_that_arrives_last_is_written(
    tmp_path: Path, database_url: str, session: aiohttp.ClientSession
) -> None:
    async with ServerProcess(tmp_path, "--database-url", database_url) as server:
        url = URL(await server.address())
        batch = await Client(session, str(url.origin())).submit([task()])
        body = b'{"new_success": 3}'
        reader, writer = await asyncio.open_connection(url.host, url.port)
        head = f"PUT /task/{batch.ids['a']} HTTP/1.1\r\nHost: perdure\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body[:5])
        await writer.drain()
        # Once it has answered somebody who came later, it is reading this request.
        await Client(session, str(url.origin())).expect(200, "GET", "/health")

        server.send(signal.SIGTERM)

        await refuses_connections(url)
        writer.write(body[5:])
        await writer.drain()
        assert await reader.readline() == b"HTTP/1.1 202 Accepted\r\n"
        writer.close()
        assert await server.ended() == 0

    async with ServerProcess(tmp_path, "--database-url", database_url) as server:
        counted = await Client(session, await server.address()).task(batch.ids["a"])
        assert counted["success"] == 3
        await server.stop()


async def refuses_connections(url: URL) -> None:
    """Wait until nobody listens any more: the engine has stopped, and only requests under way are answered."""
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection(url.host, url.port)
            except ConnectionRefusedError:
                return
            writer.close()
            await asyncio.sleep(0.01)
