"""Idempotency keys of webhooks: the same event has the same key on every instance and after every crash."""

from __future__ import annotations

from enum import StrEnum


class Trigger(StrEnum):
    """The event that a webhook tells about."""

    START = "start"
    SUCCESS = "success"
    FAILURE = "failure"
    CANCEL = "cancel"


def idempotency_key(task_id: str, trigger: Trigger, attempt: int, index: int = 0) -> str:
    """The key of the `index`-th action of `trigger` for one attempt of a task."""
    key = f"{task_id}:{trigger.value}:{attempt}"
    return key if index == 0 else f"{key}:{index}"
