"""A request as it is written to the connection: its head, and its body behind it."""

from __future__ import annotations

import re
from collections.abc import Mapping

_VERB = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
#: For these, no body is what is expected: there is no need to say so.
_BODILESS_VERBS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def write_request(verb: str, authority: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """`headers` are to find a name whatever its case.

    Raises `ValueError` rather than write something that could be read as more than one request.
    """
    if not _VERB.fullmatch(verb):
        raise ValueError("the verb is no word")
    lines = [f"{verb} {target} HTTP/1.1", f"Host: {authority}"]
    lines.extend(map(": ".join, headers.items()))
    if "Accept" not in headers:
        lines.append("Accept: */*")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    elif verb not in _BODILESS_VERBS:
        lines.append("Content-Length: 0")
    head = "\r\n".join(lines)
    breaks = len(lines) - 1
    if head.count("\n") != breaks or head.count("\r") != breaks or "\x00" in head:
        raise ValueError("a header holds a line break or a null character")
    return (head + "\r\n\r\n").encode() + (body or b"")
