"""A server that is killed in the middle of its work, and another one that takes over."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from pathlib import Path

import aiohttp

from perdure.clock import SystemClock
from perdure.config import Server, Settings
from perdure.testing import VirtualClock
from tests.support.receiver import ReceivedRequest
from tests.system.agent import Agent
from tests.system.client import Client
from tests.system.process import ServerProcess
from tests.system.server import serve

PAIRS = 100
HELD = 20
#: Longer than the lease of whatever the dead server had claimed.
LATER = timedelta(seconds=100)


async def test_everything_ends_and_what_is_repeated_has_the_same_key_and_body(
    tmp_path: Path, database_url: str, session: aiohttp.ClientSession, agent: Agent
) -> None:
    agent.finish_by_itself()
    agent.answer_only(60)
    definitions = []
    for number in range(PAIRS):
        definitions.append(agent.task(f"a{number}", timeout=86400))
        definitions.append(agent.task(f"b{number}", f"a{number}", timeout=86400))
    async with ServerProcess(tmp_path, "--database-url", database_url) as server:
        batch = await Client(session, await server.address()).submit(definitions)
        await agent.wait_until_held(HELD)

        await server.kill()

    agent.answer_only(None)
    settings = Settings(server=Server(database_url=database_url))
    async with serve(settings, VirtualClock(SystemClock().now() + LATER)) as (url, _):
        client = Client(session, url)
        agent.find_server_at(url)
        await agent.told("/ended", *batch.ids, timeout=60)

        assert await client.counts(batch) == {"success": 2 * PAIRS}
        for id in batch.ids.values():
            deliveries = await client.expect(200, "GET", f"/task/{id}/deliveries")
            assert {delivery["status"] for delivery in deliveries} == {"success"}
    assert repeated(agent.calls) >= HELD
    repeated(agent.receiver.requests_to("/ended"))
    for number in range(PAIRS):
        assert agent.keys.index(f"a{number}") < agent.keys.index(f"b{number}")


def repeated(requests: list[ReceivedRequest]) -> int:
    """How many keys were used more than once; each time, the request must have been the same."""
    by_key: dict[str, list[tuple[bytes, str]]] = defaultdict(list)
    for request in requests:
        attempt = request.query["handle"].rpartition("/")[2]
        by_key[request.headers["Idempotency-Key"]].append((request.body, attempt))
    assert all(len(set(same)) == 1 for same in by_key.values())
    return sum(len(same) > 1 for same in by_key.values())
