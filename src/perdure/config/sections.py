"""The one list of settings, by section. Adding a setting is adding a field here; all else follows from it."""
# ruff: noqa: RUF009 - setting() returns a dataclass field, as field() does

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from perdure.config.addresses import (
    check_allowed_destinations,
    check_database_url,
    check_host_url,
    check_instance_id,
    check_listening_host,
)
from perdure.config.declare import Seconds, setting, table
from perdure.config.tables import read_limits, read_policies

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "human", "json"]

LONGEST_ACTION_TIMEOUT_SECS = 60
"""The longest timeout that a single webhook action may ask for."""

_MINUTE = 60
_HOUR = 3600
_DAY = 86400
_YEAR = 365 * _DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where the instance listens, what it stores in, and which part of the work it takes."""

    database_url: str = setting(
        "sqlite:///perdure.db",
        "Database: `sqlite:///path`, or `postgresql://…` for several instances.",
        capital="DATABASE_URL",
        bare=True,
        flag="--database-url",
        secret=True,
        check=check_database_url,
    )
    host: str = setting("127.0.0.1", "Address to listen on.", flag="--host", check=check_listening_host)
    port: int = setting(
        8000,
        "Port to listen on; 0 takes a free one.",
        within=(0, 65535),
        capital="PORT",
        bare=True,
        flag="--port",
    )
    host_url: str | None = setting(
        None,
        "URL under which receivers call back; set it when they run on other machines or behind a proxy.",
        capital="HOST_URL",
        bare=True,
        flag="--host-url",
        default_text="the listening address",
        check=check_host_url,
    )
    instance_id: str | None = setting(
        None,
        "Name of this instance in leases, attempts and logs; must be unique among the running ones.",
        capital="INSTANCE_ID",
        bare=True,
        flag="--instance-id",
        default_text="host name and a random suffix, new at every start",
        check=check_instance_id,
    )
    max_body_bytes: int = setting(
        16 * 1024 * 1024,
        "Largest request body that is read; larger ones are answered with 413.",
        within=(1024, 1024**3),
    )
    api: bool = setting(True, "Serve the HTTP API and the web page.", flag="--no-api")
    engine: bool = setting(True, "Claim tasks, send webhooks and run the background loops.", flag="--no-engine")
    workers: int = setting(
        1,
        "Number of processes to run on this host; more than one needs PostgreSQL.",
        within=(1, 1024),
        flag="--workers",
    )
    kinds: tuple[str, ...] = setting((), "Claim tasks of these kinds only.", flag="--only kinds=…", default_text="all")
    namespaces: tuple[str, ...] = setting(
        (), "Claim tasks of these namespaces only.", flag="--namespaces", default_text="all"
    )
    shutdown_grace_secs: Seconds = setting(
        30.0,
        "How long a stopping instance waits for requests and sends that are under way.",
        within=(0, _HOUR),
    )
    idempotency_hours: int = setting(
        24, "How long the answer to a submission with an Idempotency-Key is kept.", within=(1, 8760)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What is logged, and how."""

    level: LogLevel = setting("info", "Least severe level that is logged.", flag="--log-level")
    format: LogFormat = setting(
        "auto",
        "Form of a log line; `auto` is `human` on a terminal and `json` elsewhere.",
        flag="--log-format",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How work is claimed, kept and given up."""

    claim_batch: int = setting(100, "Most tasks claimed by one statement.", within=(1, 1000))
    claim_timeout_secs: Seconds = setting(
        90.0,
        "Age at which a claim or an unfinished send is taken for abandoned; longer than the longest send.",
        within=(1, _DAY),
        capital="CLAIM_TIMEOUT",
    )
    poll_interval_ms: int = setting(
        1000,
        "Longest pause between two looks for claimable tasks when no wake-up arrives.",
        within=(10, _HOUR * 1000),
    )
    counter_flush_ms: int = setting(
        100, "How often counters reported by `PUT /task/{id}` are written.", within=(1, _MINUTE * 1000)
    )
    dead_end_cancel_enabled: bool = setting(
        True,
        "Cancel live ancestors whose dependents have all ended after a failure.",
        capital="DEAD_END_CANCEL_ENABLED",
    )
    cancel_on_timeout: bool = setting(
        True, "Send cancel webhooks to tasks that timed out as well.", capital="CANCEL_ON_TIMEOUT"
    )
    max_worker_losses: int = setting(
        5,
        "Lost workers of one task that do not count against its retry budget.",
        within=(0, 1000),
        capital="MAX_WORKER_LOSSES",
    )
    worker_lease_secs: Seconds = setting(
        30.0, "How long a Python worker keeps a task without a heartbeat.", within=(1, _DAY)
    )
    worker_heartbeat_secs: Seconds = setting(
        5.0,
        "How often a Python worker says that it lives, and hears which of its tasks were taken away.",
        within=(0.1, _HOUR),
    )
    history_max_attempts: int = setting(
        100,
        "Attempts kept for one task; beyond it the oldest of the middle are dropped.",
        within=(2, 10_000),
        capital="HISTORY_MAX_ATTEMPTS",
    )
    writer_group_limit: int = setting(500, "Most commands that are committed together.", within=(1, 10_000))
    database_pool_size: int = setting(10, "Connections that one process keeps open to PostgreSQL.", within=(2, 1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """How the outside is called, and who may be called."""

    concurrency: int = setting(
        128,
        "Most requests of one instance in flight at once.",
        within=(1, 10_000),
        capital="WEBHOOK_CONCURRENCY",
    )
    timeout_secs: Seconds = setting(
        10.0,
        "Time for a whole request, unless its action names its own.",
        within=(0.1, LONGEST_ACTION_TIMEOUT_SECS),
    )
    connect_timeout_secs: Seconds = setting(
        5.0, "Time to establish a connection.", within=(0.1, LONGEST_ACTION_TIMEOUT_SECS)
    )
    response_limit_bytes: int = setting(
        65536, "How much of an answer is read, after decompression.", within=(1024, 16 * 1024 * 1024)
    )
    allow_private_networks: bool = setting(False, "Allow calls to private networks.", capital="ALLOW_PRIVATE_NETWORKS")
    allow_loopback: bool | None = setting(
        None,
        "Allow calls to this machine itself.",
        capital="ALLOW_LOOPBACK",
        default_text="true while listening on loopback only",
    )
    allowed: tuple[str, ...] = setting(
        (),
        "CIDR networks and host names that may be called even if they are not public.",
        default_text="none",
        check=check_allowed_destinations,
    )
    per_destination: int | None = setting(
        None,
        "Most requests of one instance in flight to one scheme, host and port, so that a slow one leaves room.",
        within=(1, 10_000),
        default_text="half of `webhooks.concurrency`",
    )
    signing_secrets: tuple[str, ...] = setting(
        (),
        "Secrets that webhooks are signed with: `whsec_…`, or names in `[secrets]`; several while they are rotated.",
        secret=True,
        default_text="none: not signed",
    )
    delivery_retry: tuple[Seconds, ...] = setting(
        (5.0, 30.0, 120.0, 600.0, 3600.0, 21600.0, 57600.0),
        "Waits between the tries of an end or cancel webhook; one try more than there are waits.",
        within=(0, 30 * _DAY),
        capital="DELIVERY_RETRY",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long ended batches are kept."""

    days: int = setting(
        30,
        "Days after which an ended batch is deleted; 0 keeps them for ever.",
        within=(0, 36_500),
        capital="RETENTION_DAYS",
    )
    interval_secs: Seconds = setting(60.0, "How often old batches are looked for.", within=(1, _DAY))
    chunk: int = setting(100, "Most batches deleted by one transaction.", within=(1, 10_000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Limits of what a retry policy may ask for, and policies with a name."""

    max_retries_limit: int = setting(
        10,
        "Largest `max_retries` that a policy may have.",
        within=(1, 10_000),
        capital="RETRY_MAX_RETRIES_LIMIT",
        bare=True,
    )
    max_delay_limit: Seconds = setting(
        3600.0,
        "Largest `max_delay_secs` and `delay_secs` that a policy may have.",
        within=(0.001, _YEAR),
        capital="RETRY_MAX_DELAY_LIMIT",
        bare=True,
        default_text="3600, or `max_backoff_seconds` if there is a `[backoff]` section",
    )
    retry_after_limit: Seconds = setting(
        3600.0,
        "Longest wait that a server can ask for.",
        within=(0, _YEAR),
        capital="RETRY_AFTER_LIMIT",
        default_text="3600, or `max_backoff_seconds` if there is a `[backoff]` section",
    )
    max_free_waits: int = setting(
        100,
        "Waits asked for by a server that do not count against a task's retry budget.",
        within=(0, 1_000_000),
        capital="RETRY_MAX_FREE_WAITS",
    )
    max_schedule_days: int = setting(
        365,
        "Longest delay of a custom schedule, in days.",
        within=(1, 3650),
        capital="RETRY_MAX_SCHEDULE_DAYS",
    )
    loop_interval_ms: int = setting(
        1000,
        "Longest pause between two looks for due retries when nothing is known to be due sooner.",
        within=(10, _HOUR * 1000),
        capital="RETRY_LOOP_INTERVAL_MS",
        bare=True,
    )
    policies: Mapping[str, Mapping[str, Any]] = table(
        "[retry.policies.NAME]", 'A policy that a task can name: `"retry": "NAME"`.', read_policies
    )
    kinds: Mapping[str, Mapping[str, Any]] = table(
        "[retry.kinds.KIND]", "The policy of tasks of a kind that bring none of their own.", read_policies
    )
    namespaces: Mapping[str, Mapping[str, Any]] = table(
        "[retry.namespaces.NAMESPACE]",
        "The policy of tasks of a namespace whose kind has none.",
        read_policies,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays of policies that name none of their own; the section is optional."""

    default_backoff_seconds: tuple[Seconds, ...] = setting(
        (1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
        "First delays of a policy that names no delay of its own; beyond the list, multiplier and cap.",
        within=(0, _YEAR),
    )
    max_backoff_seconds: Seconds = setting(
        60.0,
        "Default and ceiling of `max_delay_secs` and of what a server may ask for, unless set apart.",
        within=(0.001, _YEAR),
    )
    backoff_multiplier: float = setting(2.0, "Factor from one delay to the next.", within=(1, 1000))
    jitter_enabled: bool = setting(True, "Spread delays at random.")
    jitter_max_percentage: float = setting(0.1, "Largest deviation, as a fraction of the delay.", within=(0, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many tasks may be running or claimed at once, over all instances."""

    kinds: Mapping[str, int] = table("[limits.kinds.KIND]", "`max_concurrency` of a kind, at least 1.", read_limits)
    namespaces: Mapping[str, int] = table(
        "[limits.namespaces.NAMESPACE]", "`max_concurrency` of a namespace, at least 1.", read_limits
    )
