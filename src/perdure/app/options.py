"""What can be said about a task besides its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from perdure.app.policy import Duration, Retry
from perdure.domain.drafts import TaskDraft
from perdure.domain.durations import parse_duration


class TaskOptions(TypedDict, total=False):
    """Each as in the HTTP API; durations may be text such as "5m"."""

    key: str
    name: str
    timeout: Duration
    retry: Retry | Mapping[str, Any] | str
    delay: Duration
    run_at: datetime | str
    priority: int
    metadata: Mapping[str, Any]
    expected_count: int
    dead_end_barrier: bool
    rules: Sequence[Mapping[str, Any]]
    dedupe_strategy: Sequence[Mapping[str, Any]]
    on_success: Sequence[Mapping[str, Any]]
    on_failure: Sequence[Mapping[str, Any]]
    on_cancel: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Definition:
    """A task without its arguments: its kind and its options."""

    kind: str
    options: TaskOptions

    def draft(self, payload: Any, key: str | None = None) -> TaskDraft:
        """The task as it is handed in."""
        members: dict[str, Any] = {**self.options, "kind": self.kind, "payload": payload or None}
        members["id"] = key or members.pop("key", None) or self.kind
        members.pop("key", None)
        members.setdefault("name", self.kind)
        if "timeout" in members:
            members["timeout"] = whole_seconds(members["timeout"])
        retry = members.get("retry")
        if isinstance(retry, Retry):
            members["retry"] = retry.members
        run_at = members.get("run_at")
        if isinstance(run_at, datetime):
            members["run_at"] = run_at.isoformat()
        return msgspec.convert(members, TaskDraft)


def whole_seconds(timeout: Duration) -> int:
    seconds = parse_duration(timeout)
    if not seconds.is_integer():
        raise ValueError(f"timeout must be whole seconds, not {timeout!r}")
    return int(seconds)
