"""Putting a webhook call together from what is stored."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.domain.keys import Trigger, idempotency_key
from perdure.webhooks.request import WebhookRequest


class StoredWebhook(msgspec.Struct):
    """The parameters of an action, as intake wrote them."""

    url: str
    verb: str
    body: msgspec.Raw = msgspec.Raw()
    """Sent as it stands; empty if there is none. (A union with None would not take a body at all.)"""
    headers: dict[str, str] | None = None
    timeout: float | None = None


_decode = msgspec.json.Decoder(StoredWebhook).decode


class Calls:
    """Makes requests that tell receivers where to report."""

    def __init__(self, host_url: str, timeout_secs: float) -> None:
        self._host_url = host_url.rstrip("/")
        self._timeout_secs = timeout_secs

    def build(self, params: str, task_id: str, trigger: Trigger, attempt: int, index: int = 0) -> WebhookRequest:
        webhook = _decode(params)
        return WebhookRequest(
            url=webhook.url,
            verb=webhook.verb.upper(),
            body=bytes(webhook.body).decode() or None,
            headers=webhook.headers or {},
            timeout_secs=webhook.timeout or self._timeout_secs,
            idempotency_key=idempotency_key(task_id, trigger, attempt, index),
            task_id=task_id,
            trigger=trigger.value,
            attempt=attempt,
            handle=f"{self._host_url}/task/{task_id}?attempt={attempt}",
        )


def log_fields(request: WebhookRequest, **more: Any) -> dict[str, Any]:
    """What every log line about a call carries."""
    return {"fields": {"task": request.task_id, "key": request.idempotency_key, **more}}
