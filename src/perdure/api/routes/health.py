"""How the server is doing: for load balancers, supervisors and Prometheus."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from perdure.api.answers import answer
from perdure.api.endpoints import Answer, Endpoint
from perdure.api.services import Metrics, Services
from perdure.api.shapes import Health, Readiness
from perdure.clock import monotonic
from perdure.store.interface import Store
from perdure.store.lookups import count_tasks, ping

log = logging.getLogger("perdure.api")

Result = TypeVar("Result")

SUBJECT = "Operation"
PING_TIMEOUT_SECS = 3.0
REFRESH_SECS = 5.0
REFRESH_TIMEOUT_SECS = 4.0


async def show_health(_request: Request, services: Services) -> Response:
    if await _database_answers(services.store):
        return answer(Health("ok", "healthy"))
    return answer(Health("degraded", "unhealthy"), 503)


async def show_readiness(_request: Request, services: Services) -> Response:
    if services.is_ready() and await _database_answers(services.store):
        return answer(Readiness("ready"))
    return answer(Readiness("not ready"), 503, {"Retry-After": "1"})


async def _database_answers(store: Store) -> bool:
    try:
        await _within(PING_TIMEOUT_SECS, store.read(ping))
    except Exception as error:
        # Whatever it is, the question was whether the database works, and it does not.
        log.warning("the database does not answer", extra={"fields": {"error": repr(error)}})
        return False
    return True


async def _within(seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`; TimeoutError after so many seconds, even if it cannot be stopped by then."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise TimeoutError(f"no answer within {seconds:g} s")
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    """Nobody waits for the task any more, so what it raised is of no interest."""
    if not task.cancelled():
        task.exception()


async def show_metrics(_request: Request, services: Services) -> Response:
    await services.gauges.refresh()
    text, content_type = services.metrics.render()
    return Response(text, headers={"Content-Type": content_type})


class Gauges:
    """Counts tasks for the metrics: often enough to be useful, seldom enough not to be felt."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._counting = asyncio.Lock()
        self._counted_at: float | None = None

    async def refresh(self) -> None:
        """Count again if the last count is old; while the database is away, what is known stays."""
        async with self._counting:
            if self._counted_at is not None and monotonic() - self._counted_at < REFRESH_SECS:
                return
            try:
                by_status, by_kind = await _within(REFRESH_TIMEOUT_SECS, self._store.read(count_tasks))
            except Exception as error:
                # The other metrics are worth having all the same.
                log.warning("tasks could not be counted", extra={"fields": {"error": repr(error)}})
            else:
                self._metrics.set_tasks_by_status(by_status)
                self._metrics.set_running_by_kind(by_kind)
            self._counted_at = monotonic()


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/health",
        handler=show_health,
        subject=SUBJECT,
        summary="Show whether the server and its database work",
        answers=(Answer(200, "All is well.", Health), Answer(503, "The database does not answer.", Health)),
    ),
    Endpoint(
        method="GET",
        path="/ready",
        handler=show_readiness,
        subject=SUBJECT,
        summary="Show whether the server takes requests",
        answers=(
            Answer(200, "It does.", Readiness),
            Answer(503, "It is starting or stopping, or the database does not answer.", Readiness),
        ),
    ),
    Endpoint(
        method="GET",
        path="/metrics",
        handler=show_metrics,
        subject=SUBJECT,
        summary="Show metrics for Prometheus",
        answers=(Answer(200, "Prometheus' text format.", str, "text/plain"),),
    ),
)
