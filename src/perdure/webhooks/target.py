"""The URL that is called: the user's, as it was written, with our handle behind its query."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote

from yarl import URL

_PARTS = re.compile(r"(?P<origin>[^:/?#]*://[^/?#]*)(?P<rest>[^#]*)")


class MalformedUrl(ValueError):
    """The text is not an absolute URL. Does not repeat it, for it may hold credentials."""


@lru_cache(maxsize=256)
def split_url(url: str) -> tuple[URL, str]:
    """The origin, its host as it will be looked up, and the rest as it was written, without fragment."""
    parts = _PARTS.match(url)
    if parts is None:
        raise MalformedUrl("no absolute URL")
    try:
        origin = URL(parts["origin"])
    except ValueError as problem:
        raise MalformedUrl("no valid host or port") from problem
    return origin, parts["rest"]


def target_url(url: str, handle: str) -> URL:
    """`url` with `handle=` added to its query; nothing that the user wrote is encoded anew."""
    origin, rest = split_url(url)
    if not rest.startswith("/"):
        rest = "/" + rest
    if "?" not in rest:
        separator = "?"
    elif rest.endswith(("?", "&")):
        separator = ""
    else:
        separator = "&"
    text = f"{str(origin).rstrip('/')}{_encode_beyond_ascii(rest)}{separator}handle={quote(handle, safe='')}"
    return URL(text, encoded=True)


def _encode_beyond_ascii(text: str) -> str:
    """A request line is ASCII: what is beyond is percent-encoded as UTF-8, what is within is left alone."""
    if text.isascii():
        return text
    return "".join(character if character.isascii() else quote(character) for character in text)
