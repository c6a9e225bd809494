"""The URL that is called: the user's, as it was written, with our handle behind its query."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from yarl import URL

_PARTS = re.compile(r"(?P<origin>[^:/?#]*://[^/?#]*)(?P<rest>[^#]*)")
#: What handles are made of: these few are replaced much faster than `quote` looks at every character.
_PLAIN = re.compile(r"[A-Za-z0-9_.~:/?=-]*")


class MalformedUrl(ValueError):
    """The text is not an absolute URL. Does not repeat it, for it may hold credentials."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a URL leads, and what is asked for there."""

    #: Scheme, host and port, to the letter: connections are shared by it. (`perdure.domain.destinations` is for
    #: counting, and reads whatever URL is stored.)
    destination: str
    is_tls: bool
    #: As it is looked up.
    host: str
    port: int
    #: As people read it, always with the port.
    where: str
    #: As the Host header says it.
    authority: str
    #: Path and query as they are written to the receiver, up to the value of the handle.
    up_to_handle: str

    def asked_with(self, handle: str) -> str:
        """Path and query; nothing that the user wrote is encoded anew."""
        return self.up_to_handle + _escape(handle)


@lru_cache(maxsize=256)
def split_url(url: str) -> tuple[URL, str]:
    """The origin, its host as it will be looked up, and the rest as it was written, without fragment."""
    parts = _PARTS.match(url)
    if parts is None:
        raise MalformedUrl("no absolute URL")
    return _read_origin(parts["origin"]), parts["rest"]


@lru_cache(maxsize=256)
def target_of(url: str) -> Target:
    """Where the URL leads; raises `MalformedUrl`."""
    origin, rest = split_url(url)
    host, port = origin.raw_host or "", origin.port or 0
    return Target(
        destination=str(origin.origin()),
        is_tls=origin.scheme == "https",
        host=host,
        port=port,
        where=f"{origin.host_subcomponent}:{port}",
        authority=origin.host_port_subcomponent or "",
        up_to_handle=_up_to_handle(rest),
    )


@lru_cache(maxsize=256)
def _read_origin(origin: str) -> URL:
    try:
        return URL(origin)
    except ValueError as problem:
        raise MalformedUrl("no valid host or port") from problem


def _up_to_handle(rest: str) -> str:
    if not rest.startswith("/"):
        rest = "/" + rest
    if "?" not in rest:
        separator = "?"
    elif rest.endswith(("?", "&")):
        separator = ""
    else:
        separator = "&"
    return f"{_encode_beyond_ascii(rest)}{separator}handle="


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
