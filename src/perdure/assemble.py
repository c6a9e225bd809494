"""The only place that picks concrete parts: which database, which sender, who listens.

Drivers and the HTTP library are loaded by those who use them: a command that runs for a moment waits for none in vain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from uuid_utils import uuid7

from perdure.clock import Clock
from perdure.config import Settings, new_instance_id
from perdure.config.addresses import SQLITE_PREFIX, listening_url
from perdure.config.sections import LONGEST_ACTION_TIMEOUT_SECS
from perdure.config.signing import decode_signing_secrets
from perdure.engine.service import Engine
from perdure.store.interface import StoreOptions
from perdure.telemetry.listener import EngineListener, count_changes
from perdure.telemetry.metrics import Metrics
from perdure.webhooks.address_guard import AddressGuard, Openings
from perdure.webhooks.egress import Egress
from perdure.webhooks.request import Sender
from perdure.webhooks.secrets import Secrets
from perdure.webhooks.signing import Signer

if TYPE_CHECKING:
    from perdure.store.postgres import PostgresStore
    from perdure.store.sqlite import SqliteStore
    from perdure.webhooks.sender import HttpSender


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
        from perdure.store.sqlite import SqliteStore

        return SqliteStore(url.removeprefix(SQLITE_PREFIX), options, clock)
    from perdure.store.postgres import PostgresStore

    return PostgresStore(url, options, clock, settings.engine.database_pool_size)


def make_egress(settings: Settings, host_url: str, port: int | None = None) -> Egress:
    """Who may be called and with which secrets; `port` is the one that our API really listens on."""
    openings = Openings(
        private_networks=settings.webhooks.allow_private_networks,
        loopback=settings.loopback_allowed,
        allowed=settings.webhooks.allowed,
    )
    own_urls = [host_url, listening_url(settings.server.host, settings.server.port if port is None else port)]
    return Egress(AddressGuard(openings, own_urls), Secrets(settings.secrets))


def make_sender(settings: Settings, egress: Egress, clock: Clock) -> HttpSender:
    from perdure.webhooks.sender import HttpSender

    # A call that waits longer for its place could be under way when others take it over as abandoned.
    spare_secs = (
        settings.engine.claim_timeout_secs - settings.webhooks.connect_timeout_secs - LONGEST_ACTION_TIMEOUT_SECS
    )
    return HttpSender(
        concurrency=settings.webhooks.concurrency,
        connect_timeout_secs=settings.webhooks.connect_timeout_secs,
        response_limit_bytes=settings.webhooks.response_limit_bytes,
        egress=egress,
        signer=Signer(decode_signing_secrets(settings.webhooks.signing_secrets, settings.secrets), clock),
        per_destination=settings.calls_per_destination,
        patience_secs=max(spare_secs, 0) / 2,
    )


def make_instance(
    settings: Settings,
    host_url: str,
    sender: Sender | None = None,
    clock: Clock | None = None,
    port: int | None = None,
    egress: Egress | None = None,
    rng: Random | None = None,
    new_id: Callable[[], str] = lambda: str(uuid7()),
) -> Instance:
    """The parts of one instance, wired; nothing is opened or started yet. `port` is the one that is listened on.

    Tests give their own time, chance and ids by `clock`, `rng` and `new_id`.
    """
    instance = settings.server.instance_id or new_instance_id()
    store = make_store(settings, instance, clock)
    metrics = Metrics()
    store.on_query(metrics.query_ran)
    store.on_commit(lambda changes: count_changes(metrics, changes))
    egress = egress or make_egress(settings, host_url, port)
    sender = sender or make_sender(settings, egress, store.clock)
    engine = Engine(store, store.clock, sender, egress, settings, host_url, EngineListener(metrics), rng, new_id)
    return Instance(instance, settings, store, engine, metrics)
