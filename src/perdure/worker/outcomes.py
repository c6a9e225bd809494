"""From what a function raised to a failure of its task."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

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
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        shown += f" ({Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name})"
    return clip(shown)


def _clean(text: str) -> str:
    """What a database can keep: no NUL, no lone surrogates."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()
