"""A server that is killed at each point in the life of a webhook, and another one that takes over.

Nothing is lost. A request is repeated only where its answer was not recorded, with the same key and body.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from perdure.clock import SystemClock
from perdure.config import Server, Settings
from perdure.testing import VirtualClock
from tests.engine.definitions import task, webhook
from tests.engine.driven import eventually
from tests.support.receiver import Receiver
from tests.system import mortal
from tests.system.client import Answered, Client, Submitted
from tests.system.mortal import Point
from tests.system.process import ServerProcess
from tests.system.server import serve

#: Longer than the lease of whatever the dead server had claimed.
LATER = timedelta(seconds=100)

#: How many requests the receiver gets, and how often the row was taken for a send.
LIVES = {
    Point.BEFORE_THE_ROW: (1, 1),
    Point.AFTER_THE_ROW: (1, 2),
    Point.DURING_THE_SEND: (2, 2),
    Point.AFTER_THE_ANSWER: (2, 2),
    Point.BEFORE_THE_RECORD: (2, 2),
    Point.AFTER_THE_RECORD: (1, 1),
}


def a_task(receiver: Receiver) -> dict[str, Any]:
    """With a webhook for each trigger, to a path of its name."""
    start, success, cancel = (webhook(receiver.url(f"/{name}"), body=[name]) for name in ("start", "success", "cancel"))
    return task("a", on_start=start, on_success=[success], on_cancel=[cancel], timeout=86400)


async def end(client: Client, id: str, trigger: str) -> Answered:
    """Let the event happen that the trigger is named for."""
    if trigger == "cancel":
        return await client.request("DELETE", f"/task/{id}")
    return await client.request("PATCH", f"/task/{id}?attempt=0", {"status": "Success"})


async def is_running(client: Client, batch: Submitted) -> None:
    await client.wait_until(batch, lambda counts: counts == {"running": 1})


async def live_until(
    point: Point, trigger: str, folder: Path, database_url: str, session: aiohttp.ClientSession, receiver: Receiver
) -> Submitted:
    """A server takes a task on, and is killed at this point of this webhook."""
    program = (sys.executable, mortal.__file__, point, trigger, "serve", "--port", "0", "--database-url", database_url)
    if point is Point.DURING_THE_SEND:
        receiver.answer(f"/{trigger}", delay=60)
    async with ServerProcess(folder, program=program) as server:
        client = Client(session, await server.address())
        batch = await client.submit([a_task(receiver)])
        if trigger != "start":
            await is_running(client, batch)
            # Who asked may or may not hear of it.
            with suppress(aiohttp.ClientConnectionError):
                await end(client, batch.ids["a"], trigger)
        if point is Point.DURING_THE_SEND:
            await receiver.wait_for(1, f"/{trigger}")
            server.send(signal.SIGKILL)
        assert await server.ended() == -signal.SIGKILL, server.output
    return batch


@pytest.mark.parametrize("point", Point)
@pytest.mark.parametrize("trigger", ["start", "success", "cancel"])
async def test_nothing_is_lost_and_only_what_was_not_recorded_is_repeated(
    point: Point, trigger: str, tmp_path: Path, database_url: str, session: aiohttp.ClientSession, receiver: Receiver
) -> None:
    batch = await live_until(point, trigger, tmp_path, database_url, session, receiver)
    id = batch.ids["a"]

    settings = Settings(server=Server(database_url=database_url))
    async with serve(settings, VirtualClock(SystemClock().now() + LATER)) as (url, _):
        client = Client(session, url)
        if trigger == "start":
            await is_running(client, batch)
            assert (await end(client, id, "success")).status == 200
        else:
            # Who got no answer asks again: what was committed is known, what was not was never acknowledged.
            again = await end(client, id, trigger)
            assert again.status == (200 if point is Point.BEFORE_THE_ROW else 409)

        async def everything_is_delivered() -> bool:
            rows = await client.expect(200, "GET", f"/task/{id}/deliveries")
            return len(rows) == 2 and {row["status"] for row in rows} == {"success"}

        await eventually(everything_is_delivered, timeout=30)
        rows = await client.expect(200, "GET", f"/task/{id}/deliveries")

    sent, taken = LIVES[point]
    key = f"{id}:{trigger}:0"
    requests = [(one.headers["Idempotency-Key"], one.body) for one in receiver.requests_to(f"/{trigger}")]
    assert requests == [(key, f'["{trigger}"]'.encode())] * sent
    assert [row["attempts"] for row in rows if row["idempotency_key"] == key] == [taken]
    others = [request.path for request in receiver.requests if request.path != f"/{trigger}"]
    assert others == (["/success"] if trigger == "start" else ["/start"])
