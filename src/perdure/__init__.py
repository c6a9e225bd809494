"""Perdure runs tasks that outlive crashes, restarts and failing services."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.app.application import Perdure
    from perdure.app.batch import Batch, Node
    from perdure.app.handle import TaskHandle, TaskNotSuccessful
    from perdure.app.policy import Retry
    from perdure.app.task import TaskFunction
    from perdure.domain.errors import Duplicate, Invalid, PerdureError
    from perdure.worker.context import Canceled, Context, NoResult
    from perdure.worker.errors import Final, Retryable, RetryAfter

__version__ = "0.1.0"

#: Where the public names live. They are fetched when they are asked for: a server needs no worker.
_HOMES = {
    "Batch": "perdure.app.batch",
    "Canceled": "perdure.worker.context",
    "Context": "perdure.worker.context",
    "Duplicate": "perdure.domain.errors",
    "Final": "perdure.worker.errors",
    "Invalid": "perdure.domain.errors",
    "NoResult": "perdure.worker.context",
    "Node": "perdure.app.batch",
    "Perdure": "perdure.app.application",
    "PerdureError": "perdure.domain.errors",
    "Retry": "perdure.app.policy",
    "RetryAfter": "perdure.worker.errors",
    "Retryable": "perdure.worker.errors",
    "TaskFunction": "perdure.app.task",
    "TaskHandle": "perdure.app.handle",
    "TaskNotSuccessful": "perdure.app.handle",
}

__all__ = [
    "Batch",
    "Canceled",
    "Context",
    "Duplicate",
    "Final",
    "Invalid",
    "NoResult",
    "Node",
    "Perdure",
    "PerdureError",
    "Retry",
    "RetryAfter",
    "Retryable",
    "TaskFunction",
    "TaskHandle",
    "TaskNotSuccessful",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
