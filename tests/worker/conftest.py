"""Workers on each database, driven by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from perdure.app.application import Perdure
from perdure.config import Server, Settings
from perdure.testing import VirtualClock
from tests.engine.conftest import clock, database, database_url, outage
from tests.store.audit import audit
from tests.worker.workshop import MakeWorkshop, Workshop

__all__ = ["clock", "database", "database_url", "outage"]


@pytest.fixture
def app() -> Perdure:
    """Takes the functions of a test; they are submitted through the workshop."""
    return Perdure(settings=Settings())


@pytest.fixture
async def make_workshop(app: Perdure, database_url: str, clock: VirtualClock) -> AsyncIterator[MakeWorkshop]:
    """Opens workers for `app` on the database of this test; what they leave behind is audited."""
    shops: list[Workshop] = []
    async with AsyncExitStack() as opened:

        async def make(
            other: Perdure | None = None, *, concurrency: int = 10, cpu_processes: int = 2, **sections: Any
        ) -> Workshop:
            server = Server(database_url=database_url, shutdown_grace_secs=sections.pop("grace_secs", 5))
            settings = Settings(server=server, **sections)
            instance, worker = (other or app).make_worker(
                settings, concurrency=concurrency, cpu_processes=cpu_processes, clock=clock
            )
            shop = Workshop(instance, clock, app=other or app, worker=worker)
            instance.store.on_commit(shop.commits.append)
            await instance.store.open()
            opened.push_async_callback(instance.store.close)
            opened.push_async_callback(worker.stop)
            shops.append(shop)
            return shop

        yield make
        if shops:
            await audit(shops[0].instance.store)
