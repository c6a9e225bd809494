"""What the tests of retries share: limits, short ways to read a policy, and policies made up by Hypothesis."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any

from hypothesis import strategies as st

from perdure.domain.model import ErrorClass, Failure, FailureTrigger
from perdure.domain.policy import Backoff, Jitter, RetryLimits, RetryPolicy
from perdure.domain.policy_parsing import parse_policy
from perdure.domain.retry import Fail, History, Retry, decide

NOW = datetime(2030, 1, 31, 12, 0, tzinfo=UTC)
DAY = 86_400.0
LIMITS = RetryLimits()
#: The limits that the configuration makes of the [backoff] section in its reference.
BACKOFF_LIMITS = RetryLimits(
    max_delay_limit=60.0,
    retry_after_limit=60.0,
    backoff=Backoff(
        default_backoff_seconds=(1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
        max_backoff_seconds=60.0,
        backoff_multiplier=2.0,
        jitter_enabled=True,
        jitter_max_percentage=0.1,
    ),
)

Named = Mapping[str, Mapping[str, Any]]


def accept(value: object, limits: RetryLimits = LIMITS, named: Named | None = None) -> RetryPolicy:
    """The policy that `value` means, which must break no rule."""
    policy, problems = parse_policy(value, "retry", limits, named or {})
    assert problems == []
    assert policy is not None
    return policy


def refuse(value: object, limits: RetryLimits = LIMITS, named: Named | None = None) -> list[str]:
    """The problems of `value`, which must have some, as a user sees them."""
    policy, problems = parse_policy(value, "retry", limits, named or {})
    assert policy is None
    assert problems
    return [str(problem) for problem in problems]


def fields_refused(value: object, limits: RetryLimits = LIMITS, named: Named | None = None) -> list[str]:
    """The fields that have problems, in their order, each once."""
    return list(dict.fromkeys(problem.split(": ")[0] for problem in refuse(value, limits, named)))


def a_failure(
    trigger: FailureTrigger = FailureTrigger.WEBHOOK_FAILURE,
    error_class: ErrorClass = ErrorClass.RETRYABLE,
    status: int | None = None,
    code: str | None = None,
    retry_after: float | None = None,
) -> Failure:
    return Failure(trigger, error_class, "it broke", status, retry_after, code)


def a_history(
    retry_count: int = 0,
    free_waits: int = 0,
    worker_losses: int = 0,
    created_at: datetime = NOW,
    previous_delay_secs: float | None = None,
) -> History:
    return History(
        attempt=retry_count + free_waits + worker_losses,
        retry_count=retry_count,
        free_waits=free_waits,
        worker_losses=worker_losses,
        created_at=created_at,
        previous_delay_secs=previous_delay_secs,
    )


def asked(retry_after: float | None) -> Failure:
    return a_failure(error_class=ErrorClass.RATE_LIMITED, status=429, retry_after=retry_after)


def judge(
    raw: dict[str, Any],
    failure: Failure,
    history: History | None = None,
    limits: RetryLimits = LIMITS,
    seed: int = 1,
    now: datetime = NOW,
) -> Retry | Fail:
    policy = accept({"max_retries": 3, **raw})
    return decide(policy, history or a_history(), failure, now, Random(seed), limits)


def wait(decision: Retry | Fail) -> float:
    assert isinstance(decision, Retry), decision
    return decision.delay_secs


def json_values() -> st.SearchStrategy[Any]:
    """Anything that a JSON or TOML parser can bring, and numbers beyond it."""
    numbers = st.one_of(
        st.integers(), st.floats(), st.sampled_from([10**400, -(10**400), 10**4000, 2**63, 1e308, 5e-324])
    )
    words = st.sampled_from(["custom", "fixed_delay", "immediate", "7d", "5xx", "none", "full", "bank", "pause"])
    scalars = st.one_of(st.none(), st.booleans(), numbers, st.text(), words)
    return st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=12), inner, max_size=4)),
        max_leaves=8,
    )


@st.composite
def raw_policies(draw: st.DrawFn) -> dict[str, Any]:
    """Policies that the default limits accept, in their canonical spelling."""
    strategy = draw(st.sampled_from(["immediate", "exponential_backoff", "fixed_delay", "custom"]))
    policy: dict[str, Any] = {
        "strategy": strategy,
        "max_retries": draw(st.integers(1, 10)),
        "jitter": draw(st.sampled_from([jitter.value for jitter in Jitter])),
        "jitter_ratio": draw(st.floats(0, 1)),
        "backoff_multiplier": draw(st.one_of(st.floats(1, 10), st.floats(1, 1.7e308))),
    }
    if strategy == "exponential_backoff":
        policy["max_delay_secs"] = draw(st.floats(1, 3600))
        policy["initial_delay_secs"] = draw(st.floats(1, policy["max_delay_secs"]))
    elif strategy == "fixed_delay":
        policy["delay_secs"] = draw(st.floats(0, 3600))
    elif strategy == "custom":
        policy["schedule"] = draw(st.lists(st.floats(0, 365 * DAY), min_size=1, max_size=5))
    if draw(st.booleans()):
        policy["expires_after_secs"] = draw(st.floats(0.001, 1.7e308))
    if draw(st.booleans()):
        policy["expires_at"] = draw(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))).isoformat() + "Z"  # noqa: DTZ001 - the zone is the Z
    return policy


def policies() -> st.SearchStrategy[RetryPolicy]:
    return raw_policies().map(accept)


def backoff_limits() -> st.SearchStrategy[RetryLimits]:
    """Limits with any [backoff] section that the configuration accepts."""
    year = 365 * DAY
    return st.builds(
        lambda delays, largest, multiplier, jitter, share: RetryLimits(
            max_delay_limit=largest,
            retry_after_limit=largest,
            backoff=Backoff(
                default_backoff_seconds=tuple(delays),
                max_backoff_seconds=largest,
                backoff_multiplier=multiplier,
                jitter_enabled=jitter,
                jitter_max_percentage=share,
            ),
        ),
        st.lists(st.floats(0, year), min_size=1, max_size=8),
        st.floats(0.001, year),
        st.floats(1, 1000),
        st.booleans(),
        st.floats(0, 1),
    )


def moments() -> st.SearchStrategy[datetime]:
    return st.datetimes(timezones=st.just(UTC))


def failures() -> st.SearchStrategy[Failure]:
    return st.builds(
        Failure,
        trigger=st.sampled_from(FailureTrigger),
        error_class=st.sampled_from(ErrorClass),
        message=st.just("it broke"),
        http_status=st.one_of(st.none(), st.integers(100, 599)),
        retry_after_secs=st.one_of(st.none(), st.floats()),
        code=st.sampled_from([None, "connection_error", "ValueError", "503"]),
    )


def histories() -> st.SearchStrategy[History]:
    return st.builds(
        lambda created_at, retry_count, free_waits, losses, previous: History(
            attempt=retry_count + free_waits + losses,
            retry_count=retry_count,
            created_at=created_at,
            free_waits=free_waits,
            worker_losses=losses,
            previous_delay_secs=previous,
        ),
        moments(),
        st.integers(0, 10**6),
        st.integers(0, 200),
        st.integers(0, 10),
        st.one_of(st.none(), st.floats(0, 1e12)),
    )
