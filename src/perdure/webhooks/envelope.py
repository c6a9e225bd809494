"""The headers of a request: the user's, and over them ours."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from multidict import CIMultiDict

from perdure import __version__
from perdure.webhooks.request import WebhookRequest

USER_AGENT = f"perdure/{__version__}"

SIGNATURE_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")

#: Names traces and keeps no secret: there is no need to ask the system for every one of them.
_random = Random()

#: What the sender can decode within bounds.
ACCEPTED_ENCODINGS = "gzip, deflate"


def outgoing_headers(
    request: WebhookRequest, given: Mapping[str, str], traceparent: str, signature: Mapping[str, str]
) -> CIMultiDict[str]:
    """`given`, the user's with secrets filled in, and ours, which replace the user's whatever their case.

    So a receiver never sees two of one name, nor a signature that is not ours.
    """
    headers: CIMultiDict[str] = CIMultiDict(given)
    for name in SIGNATURE_HEADERS:
        headers.popall(name, None)
    headers.update(signature)
    headers.setdefault("User-Agent", USER_AGENT)
    if request.body is not None:
        headers.setdefault("Content-Type", "application/json")
    headers["Accept-Encoding"] = ACCEPTED_ENCODINGS
    headers["Idempotency-Key"] = request.idempotency_key
    headers["X-Task-Id"] = request.task_id
    headers["X-Task-Trigger"] = request.trigger
    headers["X-Task-Attempt"] = str(request.attempt)
    headers["traceparent"] = traceparent
    return headers


def new_traceparent() -> str:
    """A new W3C trace context, marked as sampled: one that is not would silence the receiver's tracing."""
    # Ids of zeroes alone are invalid.
    trace_id = _random.getrandbits(128) or 1
    span_id = _random.getrandbits(64) or 1
    return f"00-{trace_id:032x}-{span_id:016x}-01"
