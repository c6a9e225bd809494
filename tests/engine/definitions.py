"""Tasks to submit, written as the HTTP API takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.domain.drafts import BatchDraft, TaskDraft

UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"
#: Retries whose moments are known beforehand.
STEADY: dict[str, Any] = {"max_retries": 3, "initial_delay_secs": 10, "max_delay_secs": 120, "jitter": "none"}

Definition = dict[str, Any]


def webhook(url: str, **params: Any) -> dict[str, Any]:
    return {"kind": "Webhook", "params": {"url": url, "verb": "Post", **params}}


def task(id: str = "a", *dependencies: str | dict[str, Any], **members: Any) -> Definition:
    """A task for a worker; with an `on_start` one for a receiver."""
    definition = {"id": id, "name": f"task {id}", "kind": "test", **members}
    if dependencies:
        definition["dependencies"] = [{"id": one} if isinstance(one, str) else one for one in dependencies]
    return definition


def on(id: str, condition: str) -> dict[str, Any]:
    """A dependency with a condition other than success."""
    return {"id": id, "condition": condition}


def limit(kind: str, most: int, *fields: str) -> dict[str, Any]:
    """A rule: at most so many of a kind at a time."""
    return {
        "type": "Concurrency",
        "matcher": {"kind": kind, "status": "Running", "fields": list(fields)},
        "max_concurrency": most,
    }


def draft(tasks: Sequence[Definition], **members: Any) -> BatchDraft:
    """The batch as it arrives at the engine."""
    return BatchDraft(msgspec.convert(list(tasks), list[TaskDraft]), **members)
