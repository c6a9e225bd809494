"""All sections together: the object that the rest of the program is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perdure.config.addresses import is_loopback_host, listening_url
from perdure.config.declare import collect_sections, collect_tables, table
from perdure.config.sections import (
    Backoff,
    Engine,
    Limits,
    Log,
    Retention,
    Retry,
    Server,
    Webhooks,
)
from perdure.config.tables import read_classification, read_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting of an instance; `Settings()` has the defaults, `load()` reads the real ones."""

    server: Server = field(default_factory=Server)
    log: Log = field(default_factory=Log)
    engine: Engine = field(default_factory=Engine)
    webhooks: Webhooks = field(default_factory=Webhooks)
    retention: Retention = field(default_factory=Retention)
    retry: Retry = field(default_factory=Retry)
    backoff: Backoff | None = None
    limits: Limits = field(default_factory=Limits)
    classification: Mapping[str, str] = table(
        "[classification]",
        "`final`, `retryable` or `rate_limited` (or `success`) for a status, a status class or a code.",
        read_classification,
    )
    secrets: Mapping[str, str] = table(
        "[secrets]",
        "Value of `${secret:NAME}` in the headers of webhooks; also read from `PERDURE_SECRET_NAME`.",
        read_secrets,
        secret=True,
    )
    sources: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    def source_of(self, name: str) -> str:
        """Where the value of a setting such as `server.port` came from."""
        return self.sources.get(name, "default")

    @property
    def listens_on_loopback_only(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback_host(self.server.host)

    @property
    def loopback_allowed(self) -> bool:
        """Whether webhooks may call this machine, the default worked out."""
        allowed = self.webhooks.allow_loopback
        return self.listens_on_loopback_only if allowed is None else allowed

    @property
    def calls_per_destination(self) -> int:
        """Most requests in flight to one destination, the default worked out."""
        given = self.webhooks.per_destination
        return max(1, self.webhooks.concurrency // 2) if given is None else given

    def callback_url(self, port: int | None = None) -> str:
        """The URL that receivers call back, without a slash at its end; `port` is the one really bound."""
        if self.server.host_url is not None:
            return self.server.host_url.rstrip("/")
        return listening_url(self.server.host, self.server.port if port is None else port)


SECTIONS = collect_sections(Settings)
SETTINGS = tuple(entry for section in SECTIONS for entry in section.settings)
TABLES = tuple(entry for section in SECTIONS for entry in section.tables) + collect_tables(Settings)
