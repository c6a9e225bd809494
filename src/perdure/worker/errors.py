"""What a task's function raises to say more about a failure.

TaskError
├── Final        trying again is pointless
├── Retryable    worth another try, by the policy
└── RetryAfter   the other side asked for a wait; it costs no retry
"""

from __future__ import annotations

from perdure.domain.durations import parse_duration
from perdure.domain.model import ErrorClass


class TaskError(Exception):
    """A failure of a task that says what it means for a retry."""

    error_class: ErrorClass
    retry_after_secs: float | None = None

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").partition("\n")[0]
        self.code = code
        super().__init__(self.message)


class Final(TaskError):
    """Trying again is pointless."""

    error_class = ErrorClass.FINAL


class Retryable(TaskError):
    """It may work another time."""

    error_class = ErrorClass.RETRYABLE


class RetryAfter(TaskError):
    """The other side asks for a wait."""

    error_class = ErrorClass.RATE_LIMITED

    def __init__(self, delay: float | str, message: str = "", *, code: str | None = None) -> None:
        """`delay` is a number of seconds or a duration such as "2m"."""
        super().__init__(message, code=code)
        self.retry_after_secs = parse_duration(delay)
