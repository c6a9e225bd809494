"""Signatures by the Standard Webhooks specification, so that receivers know who called."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence

from perdure.clock import Clock


class Signer:
    """Signs with every key at once: while keys are rotated, a receiver may know the old or the new one."""

    def __init__(self, keys: Sequence[bytes], clock: Clock) -> None:
        self._keys = tuple(keys)
        self._clock = clock

    def sign(self, message_id: str, body: bytes) -> dict[str, str]:
        """The headers that sign this body now; none without a key."""
        if not self._keys:
            return {}
        timestamp = str(int(self._clock.now().timestamp()))
        content = b".".join((message_id.encode(), timestamp.encode(), body))
        signatures = (hmac.new(key, content, hashlib.sha256).digest() for key in self._keys)
        return {
            "webhook-id": message_id,
            "webhook-timestamp": timestamp,
            "webhook-signature": " ".join(f"v1,{base64.b64encode(one).decode()}" for one in signatures),
        }
