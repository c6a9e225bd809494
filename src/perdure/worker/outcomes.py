"""From what a function raised to a failure of its task."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime

from perdure.domain.checks import clip
from perdure.domain.classify import failure_from_report
from perdure.domain.model import ErrorClass, Failure, FailureTrigger
from perdure.worker.errors import TaskError
from perdure.worker.handlers import Unfit

SHUT_DOWN = Failure(FailureTrigger.WORKER_LOST, ErrorClass.RETRYABLE, "The worker was shut down")


def failure_from_exception(
    error: BaseException, named: frozenset[str], now: datetime, classification: Mapping[str, str]
) -> Failure:
    """The failure that an exception stands for; its code is the name of its class, as policies name it."""
    if isinstance(error, TaskError):
        return failure_from_report(
            _clean(error.message),
            error.error_class,
            error.retry_after_secs,
            error.code or type(error).__name__,
            now,
            classification,
        )
    names = [one.__name__ for one in type(error).__mro__]
    code = next((name for name in names if name in named), names[0])
    return failure_from_report(describe(error), None, None, code, now, classification)


def refused(problem: Unfit) -> Failure:
    """A failure that no retry can mend."""
    return Failure(FailureTrigger.EXPLICIT, ErrorClass.FINAL, clip(_clean(str(problem))), code=problem.code)


def describe(error: BaseException) -> str:
    """The exception in a line, with the place in the code that raised it."""
    text = _clean(str(error))
    shown = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return clip(shown + _place(error))


def _place(error: BaseException) -> str:
    """Where it was raised. (The standard library's extraction reads the source files, which takes its time.)"""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f" ({os.path.basename(code.co_filename)}:{trace.tb_lineno} in {code.co_name})"


def _clean(text: str) -> str:
    """What a database can keep: no NUL, no lone surrogates."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()
