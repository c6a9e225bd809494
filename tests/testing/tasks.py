"""Tasks to simulate, written as the HTTP API takes them."""

from __future__ import annotations

from typing import Any

#: Waits whose lengths are known beforehand.
STEADY: dict[str, Any] = {"max_retries": 5, "initial_delay_secs": 10, "max_delay_secs": 3600, "jitter": "none"}


def webhook(url: str, **params: Any) -> dict[str, Any]:
    return {"kind": "Webhook", "params": {"url": url, "verb": "Post", **params}}


def call(url: str, id: str = "charge", after: tuple[str, ...] = (), **members: Any) -> dict[str, Any]:
    """A task that is done when its receiver answers."""
    return {
        "id": id,
        "name": f"task {id}",
        "kind": "call",
        "completion": "response",
        "on_start": webhook(url),
        "dependencies": [{"id": one} for one in after],
        **members,
    }
