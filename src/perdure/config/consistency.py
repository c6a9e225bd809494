"""Checks of settings against each other."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from perdure.config.problems import MASK, describe_problem
from perdure.config.sections import LONGEST_ACTION_TIMEOUT_SECS
from perdure.config.settings import Settings
from perdure.config.signing import decode_signing_secrets
from perdure.config.values import format_number


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition over several settings; `complain` says what is wrong with the first of them, or nothing."""

    names: tuple[str, ...]
    complain: Callable[[Settings], str | None]


def find_contradictions(settings: Settings, broken: Collection[str]) -> list[str]:
    """Problems between settings, leaving out those that are already known to be bad themselves."""
    problems = []
    for rule in RULES:
        complaint = None if any(name in broken for name in rule.names) else rule.complain(settings)
        if complaint is not None:
            problems.append(complaint)
    return problems


def _check_claim_timeout(settings: Settings) -> str | None:
    claim, connect = settings.engine.claim_timeout_secs, settings.webhooks.connect_timeout_secs
    longest = LONGEST_ACTION_TIMEOUT_SECS + connect
    if claim > longest:
        return None
    complaint = (
        f"must be longer than the longest send, {format_number(longest)} seconds "
        f"({LONGEST_ACTION_TIMEOUT_SECS} and webhooks.connect_timeout_secs), or webhooks would be sent twice"
    )
    return _describe(settings, "engine.claim_timeout_secs", format_number(claim), complaint)


def _check_heartbeat(settings: Settings) -> str | None:
    lease, heartbeat = settings.engine.worker_lease_secs, settings.engine.worker_heartbeat_secs
    if heartbeat * 3 <= lease:
        return None
    complaint = "must be at most a third of engine.worker_lease_secs, or a worker that lives is taken for lost"
    return _describe(settings, "engine.worker_heartbeat_secs", format_number(heartbeat), complaint)


def _check_processes(settings: Settings) -> str | None:
    if settings.server.workers == 1 or not settings.server.database_url.startswith("sqlite:"):
        return None
    complaint = "must be 1 with SQLite; several processes need a PostgreSQL database in server.database_url"
    return _describe(settings, "server.workers", str(settings.server.workers), complaint)


def _check_roles(settings: Settings) -> str | None:
    if settings.server.api or settings.server.engine:
        return None
    complaint = (
        f"must be true while server.engine is false ({settings.source_of('server.engine')}), "
        "or the instance would do nothing"
    )
    return _describe(settings, "server.api", "false", complaint)


def _check_signing(settings: Settings) -> str | None:
    try:
        decode_signing_secrets(settings.webhooks.signing_secrets, settings.secrets)
    except ValueError as error:
        return _describe(settings, "webhooks.signing_secrets", MASK, str(error))
    return None


def _describe(settings: Settings, name: str, value: str, complaint: str) -> str:
    return describe_problem(name, value, settings.source_of(name), complaint)


RULES = (
    Rule(("engine.claim_timeout_secs", "webhooks.connect_timeout_secs"), _check_claim_timeout),
    Rule(("engine.worker_heartbeat_secs", "engine.worker_lease_secs"), _check_heartbeat),
    Rule(("server.workers", "server.database_url"), _check_processes),
    Rule(("server.api", "server.engine"), _check_roles),
    Rule(("webhooks.signing_secrets", "secrets"), _check_signing),
)
