"""The connection breaks after the server has stored a batch: the client submits again, and there is one batch."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

from perdure.client import AsyncClient, Client


class LossyLine:
    """Passes everything on to a server, and breaks the first connections when the answer has begun to arrive."""

    def __init__(self, server_url: str, losses: int) -> None:
        parts = urlsplit(server_url)
        self._host, self._port = parts.hostname, parts.port
        self.losses = losses

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *exception: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(self._host, self._port)

        async def forward() -> None:
            while data := await reader.read(65536):
                there_writer.write(data)
            there_writer.close()

        forwarding = asyncio.create_task(forward())
        while data := await there_reader.read(65536):
            if self.losses > 0:
                self.losses -= 1
                break
            writer.write(data)
        writer.transport.abort()
        forwarding.cancel()
        await asyncio.wait([forwarding])
        there_writer.close()


@pytest.mark.parametrize("blocking", [False, True], ids=["async", "plain"])
async def test_there_is_exactly_one_batch(server_url: str, blocking: bool) -> None:
    task = {"id": "a", "name": "A", "kind": "etl"}
    async with LossyLine(server_url, losses=2) as url:
        if blocking:
            with Client(url) as client:
                submitted = await asyncio.to_thread(client.submit, task)
        else:
            async with AsyncClient(url) as client_there:
                submitted = await client_there.submit(task)

    async with AsyncClient(server_url) as client_here:
        batches = [batch async for batch in client_here.batches()]
    assert [batch.batch_id for batch in batches] == [submitted.batch_id]
