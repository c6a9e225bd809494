"""Secrets that webhooks are signed with, as the Standard Webhooks specification writes them: `whsec_<base64>`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence

PREFIX = "whsec_"
_KEY_BYTES = range(24, 65)


def decode_signing_secrets(entries: Sequence[str], secrets: Mapping[str, str]) -> list[bytes]:
    """The keys of `webhooks.signing_secrets`, each a secret itself or the name of one; raises ValueError."""
    return [_decode(_look_up(position, entry, secrets), position) for position, entry in enumerate(entries, 1)]


def _look_up(position: int, entry: str, secrets: Mapping[str, str]) -> str:
    if entry.startswith(PREFIX):
        return entry
    if entry in secrets:
        return secrets[entry]
    # The entry is not repeated: it may be a secret whose prefix was forgotten.
    raise ValueError(f"entry {position} neither begins with {PREFIX} nor is the name of a secret in [secrets]")


def _decode(text: str, position: int) -> bytes:
    complaint = (
        f"entry {position} must be {PREFIX} and the base64 form of {_KEY_BYTES[0]} to {_KEY_BYTES[-1]} random bytes"
    )
    if not text.startswith(PREFIX):
        raise ValueError(complaint)
    encoded = text.removeprefix(PREFIX)
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(complaint) from None
    if len(key) not in _KEY_BYTES:
        raise ValueError(complaint)
    return key
