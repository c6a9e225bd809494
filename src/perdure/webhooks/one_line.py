"""Text of the other side, made fit to stand in a reason or in a line of a log."""

from __future__ import annotations

import json

#: Of a body, in characters.
_BODY_LIMIT = 1000
#: What a failure says about itself in JSON; each has a place of its own in the attempt.
_KNOWN_MEMBERS = frozenset({"error_class", "retry_after", "code", "message"})
_NOTHING = (b"", b"{}", b"[]", b"null", b'""')


def one_line(text: str, limit: int) -> str:
    """`text` without line breaks or anything else that cannot be printed, at most `limit` characters of it."""
    # What cannot be shown need not be looked at either.
    flat = " ".join(text[: 4 * limit].split())
    printable = "".join(character if character.isprintable() else "?" for character in flat)
    is_whole = len(printable) <= limit and len(text) <= 4 * limit
    return printable if is_whole else printable[: limit - 1] + "…"


def body_in_words(body: bytes) -> str:
    """What the body of a refusal says beyond its status; empty if that is nothing, or told elsewhere."""
    written = body.strip()
    if written in _NOTHING or _tells_only_what_is_kept(written):
        return ""
    if b"\x00" in written:
        return f"({len(body)} bytes that are no text)"
    return one_line(written.decode("utf-8", "replace"), _BODY_LIMIT)


def _tells_only_what_is_kept(body: bytes) -> bool:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and set(said) <= _KNOWN_MEMBERS
