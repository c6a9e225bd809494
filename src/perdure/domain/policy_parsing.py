"""From what people write to a retry policy: every spelling, every rule, all broken rules at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from perdure.domain.errors import Problem
from perdure.domain.policy import Jitter, OnExhausted, RetryLimits, RetryPolicy, Strategy
from perdure.domain.policy_fields import GivenPolicy, gather_fields
from perdure.domain.policy_schedule import Longest, read_delays
from perdure.domain.policy_values import FieldReader, show_number

_STRATEGY_ALIASES = {"exponential": Strategy.EXPONENTIAL_BACKOFF}
_LOWEST_INITIAL_DELAY = 1.0
_DELAY_LIMIT = "RETRY_MAX_DELAY_LIMIT"


def parse_policy(
    value: object,
    path: str,
    limits: RetryLimits,
    named: Mapping[str, Mapping[str, Any]],
) -> tuple[RetryPolicy | None, list[Problem]]:
    """The policy that `value` means: an object of fields, or the name of one of the `named`.

    Anything that JSON or TOML can hold may be given; null gives no policy and no problem. `path` is the place
    of the policy in the request, as in `tasks[0].retry`, and opens the field of every problem.
    """
    problems: list[Problem] = []
    if value is None:
        return None, problems
    given = gather_fields(value, path, named, problems)
    if given is None:
        return None, problems
    policy = _read_policy(given, path, limits, problems)
    return (None if problems else policy), problems


def _read_policy(given: GivenPolicy, path: str, limits: RetryLimits, problems: list[Problem]) -> RetryPolicy:
    reader = FieldReader(given.fields, problems)
    enabled = reader.flag("enabled", True)
    strategy = reader.choice("strategy", Strategy, Strategy.EXPONENTIAL_BACKOFF, _STRATEGY_ALIASES)
    max_retries = reader.whole_number(
        "max_retries",
        0,
        1 if enabled else 0,
        limits.max_retries_limit,
        limit_name="RETRY_MAX_RETRIES_LIMIT",
    )
    initial_delay_secs, max_delay_secs = _read_exponential(reader, strategy, limits)
    multiplier = reader.number("backoff_multiplier", float(limits.backoff.backoff_multiplier), 1.0)
    delay_secs = reader.optional_number("delay_secs", 0, limits.max_delay_limit, limit_name=_DELAY_LIMIT)
    longest = Longest(limits.longest_scheduled_secs, f"{limits.max_schedule_days} days (RETRY_MAX_SCHEDULE_DAYS)")
    schedule = _read_delay_list(reader, "schedule", longest)
    if given.complete and enabled:
        _require(reader, path, strategy, limits)
    return RetryPolicy(
        strategy=strategy,
        max_retries=max_retries,
        initial_delay_secs=initial_delay_secs,
        backoff_multiplier=multiplier,
        max_delay_secs=max_delay_secs,
        delay_secs=delay_secs,
        schedule=schedule,
        first_delays=_read_first_delays(reader, strategy, multiplier, limits),
        retry_on=reader.conditions("retry_on", may_be_empty=False),
        ignore=reader.conditions("ignore", may_be_empty=True) or (),
        jitter=reader.choice("jitter", Jitter, _default_jitter(strategy, limits), {}),
        jitter_ratio=reader.number("jitter_ratio", float(limits.backoff.jitter_max_percentage), 0, 1),
        expires_at=reader.moment("expires_at"),
        # A policy that expires at once could never retry.
        expires_after_secs=reader.optional_number("expires_after_secs", 0.001),
        on_exhausted=reader.choice("on_exhausted", OnExhausted, OnExhausted.FAIL, {}),
        enabled=enabled,
        name=given.name,
    )


def _require(reader: FieldReader, path: str, strategy: Strategy, limits: RetryLimits) -> None:
    """Notes what the strategy cannot do without."""

    def note_missing(name: str, message: str) -> None:
        if not reader.has(name):
            reader.problems.append(Problem(f"{path}.{name}" if path else name, message))

    note_missing("max_retries", f"is required: how often to retry, 1 to {limits.max_retries_limit}")
    if strategy is Strategy.FIXED_DELAY:
        note_missing("delay_secs", "is required for strategy 'fixed_delay'")
    elif strategy is Strategy.CUSTOM:
        note_missing("schedule", "is required for strategy 'custom'")


def _read_exponential(reader: FieldReader, strategy: Strategy, limits: RetryLimits) -> tuple[float, float]:
    """The initial and the largest delay, and whether they go together."""
    grows = strategy is Strategy.EXPONENTIAL_BACKOFF and "strategy" not in reader.broken
    default_initial, default_max = limits.default_delays[0], limits.default_max_delay_secs
    # A default that the operator set below a second may also be said outright.
    lowest = min(_LOWEST_INITIAL_DELAY, default_initial) if grows else 0.0
    initial = reader.number("initial_delay_secs", default_initial, lowest)
    largest = reader.number("max_delay_secs", default_max, 0, limits.max_delay_limit, limit_name=_DELAY_LIMIT)
    if not grows or largest >= initial or reader.broken & {"initial_delay_secs", "max_delay_secs"}:
        return initial, largest
    if reader.has("max_delay_secs"):
        by_default = "" if reader.has("initial_delay_secs") else " by default"
        message = f"must be at least initial_delay_secs, which is {show_number(initial)}{by_default}"
        reader.refuse("max_delay_secs", f"{message}; is {show_number(largest)}")
    else:
        message = f"must be at most max_delay_secs, which is {show_number(largest)} by default"
        reader.refuse("initial_delay_secs", f"{message}; is {show_number(initial)}")
    return initial, largest


def _read_first_delays(
    reader: FieldReader, strategy: Strategy, multiplier: float, limits: RetryLimits
) -> tuple[float, ...] | None:
    if reader.has("first_delays"):
        longest = Longest(limits.max_delay_limit, f"{show_number(limits.max_delay_limit)} seconds ({_DELAY_LIMIT})")
        return _read_delay_list(reader, "first_delays", longest)
    if strategy is not Strategy.EXPONENTIAL_BACKOFF or reader.has("initial_delay_secs"):
        return None
    delays = limits.default_delays
    return None if _grows_by(multiplier, delays) else delays


def _grows_by(multiplier: float, delays: Sequence[float]) -> bool:
    """Whether the first delay and the multiplier say the same as the list."""
    return all(following == delay * multiplier for delay, following in pairwise(delays))


def _read_delay_list(reader: FieldReader, name: str, longest: Longest) -> tuple[float, ...] | None:
    if not reader.has(name):
        return None
    return read_delays(reader.fields[name], longest, reader.problems)


def _default_jitter(strategy: Strategy, limits: RetryLimits) -> Jitter:
    spread = strategy is Strategy.EXPONENTIAL_BACKOFF and limits.backoff.jitter_enabled
    return Jitter.PROPORTIONAL if spread else Jitter.NONE
