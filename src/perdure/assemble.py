"""The only place that picks concrete parts: which database, which sender, who listens."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.clock import Clock
from perdure.config import Settings, new_instance_id
from perdure.engine.service import Engine
from perdure.store.interface import StoreOptions
from perdure.store.postgres import PostgresStore
from perdure.store.sqlite import SqliteStore
from perdure.telemetry.listener import EngineListener, count_changes
from perdure.telemetry.metrics import Metrics
from perdure.webhooks.guard import OpenGuard
from perdure.webhooks.sender import HttpSender, Sender

SQLITE_PREFIX = "sqlite:///"


@dataclass(frozen=True, slots=True)
class Instance:
    """Everything that one process runs."""

    id: str
    settings: Settings
    store: PostgresStore | SqliteStore
    engine: Engine
    metrics: Metrics


def make_store(settings: Settings, instance: str, clock: Clock | None = None) -> PostgresStore | SqliteStore:
    options = StoreOptions(
        instance,
        dead_ends=settings.engine.dead_end_cancel_enabled,
        cancel_on_timeout=settings.engine.cancel_on_timeout,
        history_max_attempts=settings.engine.history_max_attempts,
    )
    url = settings.server.database_url
    if url.startswith(SQLITE_PREFIX):
        return SqliteStore(url.removeprefix(SQLITE_PREFIX), options, clock)
    return PostgresStore(url, options, clock, settings.engine.database_pool_size)


def make_sender(settings: Settings) -> HttpSender:
    return HttpSender(
        concurrency=settings.webhooks.concurrency,
        connect_timeout_secs=settings.webhooks.connect_timeout_secs,
        response_limit_bytes=settings.webhooks.response_limit_bytes,
        guard=OpenGuard(),
    )


def make_instance(
    settings: Settings, host_url: str, sender: Sender | None = None, clock: Clock | None = None
) -> Instance:
    """The parts of one instance, wired; nothing is opened or started yet."""
    instance = settings.server.instance_id or new_instance_id()
    store = make_store(settings, instance, clock)
    metrics = Metrics()
    store.on_query(metrics.query_ran)
    store.on_commit(lambda changes: count_changes(metrics, changes))
    engine = Engine(store, store.clock, sender or make_sender(settings), settings, host_url, EngineListener(metrics))
    return Instance(instance, settings, store, engine, metrics)
