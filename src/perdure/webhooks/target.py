"""The URL that is called: the user's, as it was written, with our handle behind its query."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote

from yarl import URL

_PARTS = re.compile(r"(?P<origin>[^:/?#]*://[^/?#]*)(?P<rest>[^#]*)")


#: What handles are made of: these few are replaced much faster than `quote` looks at every character.
_PLAIN = re.compile(r"[A-Za-z0-9_.~:/?=-]*")


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


@lru_cache(maxsize=256)
def destination_of(url: str) -> str:
    """Scheme, host and port: what is called, whatever is asked of it."""
    return str(split_url(url)[0].origin())


def target_url(url: str, handle: str) -> URL:
    """`url` with `handle=` added to its query; nothing that the user wrote is encoded anew."""
    return URL(_up_to_handle(url) + _escape(handle), encoded=True)


@lru_cache(maxsize=256)
def _up_to_handle(url: str) -> str:
    origin, rest = split_url(url)
    if not rest.startswith("/"):
        rest = "/" + rest
    if "?" not in rest:
        separator = "?"
    elif rest.endswith(("?", "&")):
        separator = ""
    else:
        separator = "&"
    return f"{str(origin).rstrip('/')}{_encode_beyond_ascii(rest)}{separator}handle="


def _escape(text: str) -> str:
    """Fit for the value of a parameter."""
    if _PLAIN.fullmatch(text):
        return text.replace(":", "%3A").replace("/", "%2F").replace("?", "%3F").replace("=", "%3D")
    return quote(text, safe="")


def _encode_beyond_ascii(text: str) -> str:
    """A request line is ASCII: what is beyond is percent-encoded as UTF-8, what is within is left alone."""
    if text.isascii():
        return text
    return "".join(character if character.isascii() else quote(character) for character in text)
