"""Retry policies as the configuration gives them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from perdure.config import ConfigurationError, Settings
from perdure.domain.errors import Invalid, Problem
from perdure.domain.policy import Backoff, RetryLimits, RetryPolicy
from perdure.domain.policy_parsing import parse_policy
from perdure.domain.preview import Preview, preview
from perdure.engine.intake import Policies


def policies_from(settings: Settings) -> Policies:
    """Limits, named policies and defaults; raises ConfigurationError with every broken rule."""
    retry = settings.retry
    limits = RetryLimits(
        max_retries_limit=retry.max_retries_limit,
        max_delay_limit=retry.max_delay_limit,
        retry_after_limit=retry.retry_after_limit,
        max_free_waits=retry.max_free_waits,
        max_schedule_days=retry.max_schedule_days,
        max_worker_losses=settings.engine.max_worker_losses,
        **({"backoff": _backoff(settings)} if settings.backoff is not None else {}),
    )
    problems: list[str] = []
    _parse_all(problems, "retry.policies", retry.policies, limits, retry.policies)
    kinds = _parse_all(problems, "retry.kinds", retry.kinds, limits, retry.policies)
    namespaces = _parse_all(problems, "retry.namespaces", retry.namespaces, limits, retry.policies)
    if problems:
        raise ConfigurationError(problems)
    return Policies(limits, retry.policies, kinds, namespaces)


def preview_policy(value: Mapping[str, Any] | str, policies: Policies, now: datetime) -> Preview:
    """What a policy, or the one of this name, would do from now on; raises Invalid with every broken rule."""
    policy, problems = parse_policy(value, "", policies.limits, policies.named)
    if policy is None:
        found = [Problem(problem.field or "policy", problem.message) for problem in problems]
        raise Invalid(found or [Problem("policy", "must not be null")])
    return preview(policy, policies.limits, now)


def _parse_all(
    problems: list[str],
    section: str,
    given: Mapping[str, Mapping[str, Any]],
    limits: RetryLimits,
    named: Mapping[str, Mapping[str, Any]],
) -> dict[str, RetryPolicy]:
    found: dict[str, RetryPolicy] = {}
    for name, value in given.items():
        policy, broken = parse_policy(value, f"{section}.{name}", limits, named)
        problems.extend(str(problem) for problem in broken)
        if policy is not None:
            found[name] = policy
    return found


def _backoff(settings: Settings) -> Backoff:
    given = settings.backoff
    assert given is not None
    return Backoff(
        default_backoff_seconds=given.default_backoff_seconds,
        max_backoff_seconds=given.max_backoff_seconds,
        backoff_multiplier=given.backoff_multiplier,
        jitter_enabled=given.jitter_enabled,
        jitter_max_percentage=given.jitter_max_percentage,
    )
