"""The plain client among threads and within event loops, and the async one in the wrong loop."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor

import pytest

from perdure.client import AsyncClient, Client, ClientError
from tests.support.receiver import Receiver

A_TASK = {"id": "a", "name": "A", "kind": "etl"}


def test_one_client_serves_many_threads(server_url: str) -> None:
    with Client(server_url) as client, ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(lambda _: client.submit(A_TASK).tasks[0].id, range(40)))
        assert len(set(ids)) == 40
        assert {task.id for task in client.tasks()} == set(ids)


async def test_plain_code_may_be_called_inside_a_running_loop(server_url: str) -> None:
    # The server runs in another thread, so blocking this loop does not keep it from answering.
    assert asyncio.get_running_loop().is_running()
    with Client(server_url) as client:
        client.submit([{**A_TASK, "id": str(number)} for number in range(150)])
        assert len(list(client.tasks())) == 150
        for task in client.tasks():
            assert task.kind == "etl"
            break
    gc.collect()
    await asyncio.get_running_loop().shutdown_asyncgens()


async def test_an_async_client_is_not_carried_into_another_loop(receiver: Receiver) -> None:
    async with AsyncClient(receiver.url("")) as client:
        receiver.answer("/pauses", json=[])
        await client.pauses()
        with pytest.raises(ClientError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, client.pauses())


def test_a_closed_client_keeps_nothing_open(server_url: str) -> None:
    client = Client(server_url)
    client.health()
    client.close()
    assert client.health().status == "ok"
