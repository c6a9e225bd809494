"""What the routes work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from perdure.engine.commands import Commands
from perdure.store.interface import Store


class Metrics(Protocol):
    """What is counted and measured, for Prometheus."""

    def set_tasks_by_status(self, counts: Mapping[str, int], /) -> None: ...

    def set_running_by_kind(self, counts: Mapping[str, int], /) -> None: ...

    def render(self) -> tuple[bytes, str]: ...


class Refresher(Protocol):
    """Brings the gauges of the metrics up to date, now and then."""

    async def refresh(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Services:
    commands: Commands
    store: Store
    metrics: Metrics
    gauges: Refresher
    new_id: Callable[[], str]
    is_ready: Callable[[], bool]
    """Whether the engine has started and is not stopping."""
    max_body_bytes: int


Handler: TypeAlias = Callable[[Request, Services], Awaitable[Response]]
