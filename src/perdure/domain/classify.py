"""What the outcome of a call means for a retry: a table, and what an answer says about itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from perdure.domain.checks import clip
from perdure.domain.model import ErrorClass, Failure, FailureTrigger
from perdure.domain.requested_delay import read_delay, requested_delay

#: In a table of classes: the answer is no failure at all.
SUCCESS = "success"
_CODE_BYTES = 255

_DEFAULTS: Mapping[str, str] = {
    "2xx": SUCCESS,
    "408": ErrorClass.RETRYABLE,
    "425": ErrorClass.RETRYABLE,
    "429": ErrorClass.RATE_LIMITED,
    "5xx": ErrorClass.RETRYABLE,
    "blocked_address": ErrorClass.FINAL,
    # It cannot be sent, now or later.
    "invalid_request": ErrorClass.FINAL,
}
_DEFAULTS_WITH_DELAY: Mapping[str, str] = {**_DEFAULTS, "503": ErrorClass.RATE_LIMITED}


def classify(
    status: int | None,
    code: str | None,
    overrides: Mapping[str, str],
    *,
    delay_requested: bool = False,
) -> ErrorClass | None:
    """The class of an outcome; None for success.

    `overrides` is the configured table: "404", "5xx" or an error code → class. The most specific entry
    decides, and at equal rank the configured one.
    """
    defaults = _DEFAULTS_WITH_DELAY if delay_requested else _DEFAULTS
    exact = [key for key in (code, None if status is None else str(status)) if key is not None]
    keys = exact if status is None else [*exact, f"{str(status)[0]}xx"]
    # Codes and statuses are of equal rank: a configured status goes before a default for the code.
    for rank in (exact, keys):
        for table in (overrides, defaults):
            for key in rank:
                if key in table:
                    found = table[key]
                    return None if found == SUCCESS else ErrorClass(found)
    return ErrorClass.RETRYABLE if status is None else ErrorClass.FINAL


def failure_from_answer(
    status: int | None,
    headers: Mapping[str, str],
    body: bytes,
    error_code: str | None,
    message: str,
    now: datetime,
    overrides: Mapping[str, str],
    trigger: FailureTrigger = FailureTrigger.WEBHOOK_FAILURE,
) -> Failure:
    """The failure behind an answer that was no success, or behind `error_code` when none came.

    The members `error_class`, `retry_after`, `code` and `message` of a JSON body say more, and count more.
    """
    # Without a status the answer broke off: what there is of it belongs to another outcome.
    said = {} if status is None else _read_body(body)
    delay = read_delay(said.get("retry_after"), now)
    if delay is None and status is not None:
        delay = requested_delay(headers, now)
    code = _read_code(said.get("code")) or error_code
    error_class = _read_class(said.get("error_class")) or classify(
        status, code, overrides, delay_requested=delay is not None
    )
    details = said.get("message")
    if isinstance(details, str) and details.strip():
        message = f"{message}: {details.strip()}"
    return Failure(
        trigger=trigger,
        error_class=error_class or ErrorClass.RETRYABLE,
        message=clip(message),
        http_status=status,
        retry_after_secs=delay,
        code=code,
    )


def failure_from_report(
    message: str,
    error_class: str | None,
    retry_after: Any,
    code: str | None,
    now: datetime,
    overrides: Mapping[str, str],
    trigger: FailureTrigger = FailureTrigger.EXPLICIT,
) -> Failure:
    """The failure that a receiver or a worker reports.

    One that asks for a wait and names no class is rate limited.
    """
    delay = read_delay(retry_after, now)
    code = _read_code(code)
    found = _read_class(error_class)
    if found is None and code is not None and code in overrides:
        found = classify(None, code, overrides)
    if found is None:
        found = ErrorClass.RETRYABLE if delay is None else ErrorClass.RATE_LIMITED
    return Failure(trigger, found, clip(message), None, delay, code)


def _read_body(body: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(body)
    # Whatever is no JSON, or nested beyond reason, says nothing.
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _read_class(value: Any) -> ErrorClass | None:
    return ErrorClass(value) if isinstance(value, str) and value in set(ErrorClass) else None


def _read_code(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    return clip(value.strip(), _CODE_BYTES) or None
