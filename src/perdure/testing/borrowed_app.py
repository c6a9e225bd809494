"""A user's application, whose submissions go to the simulation for a while."""

from __future__ import annotations

from perdure.app.application import Perdure
from perdure.assemble import Instance
from perdure.testing.haste import open_in_haste


class BorrowedApp:
    """What `app` submits goes through `instance` from `open` to `close`; then everything is as before."""

    def __init__(self, app: Perdure, instance: Instance) -> None:
        self.app = app
        self._desk = app._desk
        self._instance = instance
        self._before: Instance | None = None

    async def open(self) -> None:
        await self._desk._on_portal(open_in_haste(self._instance))
        self._before, self._desk._instance = self._desk._instance, self._instance

    async def close(self) -> None:
        await self._desk._on_portal(self._desk._shut())
        self._desk._instance = self._before
        if self._before is None:
            # Nobody used it before: nobody but us has a reason to keep its thread.
            self._desk._portal.close()
