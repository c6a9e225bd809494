"""From what a function raised to a failure of its task."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

import msgspec

from perdure.domain.checks import REASON_BYTES, clip
from perdure.domain.classify import failure_from_report
from perdure.domain.model import ErrorClass, Failure, FailureTrigger
from perdure.domain.retry import Fail, Retry
from perdure.store.changes import Row
from perdure.store.verbs.fail import Decide
from perdure.worker.errors import TaskError
from perdure.worker.handlers import Unfit

SHUT_DOWN = Failure(FailureTrigger.WORKER_LOST, ErrorClass.RETRYABLE, "The worker was shut down")
UNWRITABLE = Failure(
    FailureTrigger.EXPLICIT, ErrorClass.FINAL, "What became of the attempt cannot be stored", code="invalid_result"
)
CODE_BYTES = 255
#: Every exception is one of these: to name them says nothing.
_ROOTS = (BaseException, object)


class Raised(NamedTuple):
    """What a function raised, as plain data that can come from another process."""

    names: tuple[str, ...]
    """Its code, then the names of its class and of those that it is derived from, nearest first."""
    message: str
    error_class: ErrorClass | None = None
    retry_after_secs: float | None = None


@dataclass(frozen=True, slots=True)
class RaisedFailure(Failure):
    """A failure by an exception; a policy may name it by any of `names`."""

    names: tuple[str, ...] = ()


def raised_from(error: BaseException) -> Raised:
    """Read an exception; whatever is wrong with it, this does not raise another one."""
    names = tuple(one.__name__ for one in type(error).__mro__ if one not in _ROOTS)
    if isinstance(error, Unfit):
        return Raised((error.code,), clip(_text(error)), ErrorClass.FINAL)
    if not isinstance(error, TaskError):
        return Raised(names, describe(error))
    # A subclass may have a way of its own to be made, and then know neither code nor message.
    code = clip(_text(getattr(error, "code", None) or ""), CODE_BYTES).strip()
    message = clip(_text(getattr(error, "message", None) or error)) or type(error).__name__
    return Raised((code, *names) if code else names, message, error.error_class, error.retry_after_secs)


def failure_from(raised: Raised, now: datetime, classification: Mapping[str, str]) -> RaisedFailure:
    """The failure that an exception stands for; the configuration may give its class, or one above it, another one."""
    code = next((name for name in raised.names if name in classification), raised.names[0])
    found = failure_from_report(raised.message, raised.error_class, raised.retry_after_secs, code, now, classification)
    delay = found.retry_after_secs
    return RaisedFailure(
        found.trigger, found.error_class, found.message, None, delay, raised.names[0], names=raised.names
    )


def deciding_by_name(decide: Decide) -> Decide:
    """Lets a policy that names a class of exceptions mean those that are derived from it, too."""

    def decide_row(row: Row, failure: Failure, now: datetime) -> Retry | Fail:
        if isinstance(failure, RaisedFailure) and row["retry_policy"]:
            named = _conditions(row["retry_policy"])
            code = next((name for name in failure.names if name in named), failure.code)
            if code != failure.code:
                failure = replace(failure, code=code)
        return decide(row, failure, now)

    return decide_row


@lru_cache(maxsize=1024)
def _conditions(policy: str) -> frozenset[str]:
    members = msgspec.json.decode(policy)
    return frozenset((*(members.get("retry_on") or ()), *(members.get("ignore") or ())))


def describe(error: BaseException) -> str:
    """The exception in a line, with the place in the code that raised it."""
    text = _text(error)
    shown = f"{type(error).__name__}: {text}" if text else type(error).__name__
    place = _place(error)
    return clip(shown, REASON_BYTES - len(place.encode())) + place


def _place(error: BaseException) -> str:
    """Where it was raised. (The standard library's extraction reads the source files, which takes its time.)"""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f" ({os.path.basename(code.co_filename)}:{trace.tb_lineno} in {code.co_name})"


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"a {type(value).__name__} that cannot be shown"
