"""The form of URLs and headers, and what decides who may be called.

Checked when a webhook is submitted and again before it is sent. Which hosts and addresses are open is up to the
`Guard` that a sender is given: `perdure.webhooks.address_guard` has the one that is used.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

from perdure.webhooks.target import MalformedUrl, split_url

URL_LENGTH_LIMIT = 8192
HEADER_COUNT_LIMIT = 100
HEADER_SIZE_LIMIT = 8 * 1024

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_AUTHORITY = re.compile(r"https?://([^/?#]*)", re.IGNORECASE)
_PORT = re.compile(r":[0-9]{1,5}")
_HOST_NAME = re.compile(r"(?=.{1,253}\.?\Z)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_FORBIDDEN_IN_URL = re.compile(r"[\x00-\x20\x7f\\]")
_FORBIDDEN_IN_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")

#: Headers that say how a connection or a message is framed: the sender alone decides on those.
REFUSED_HEADERS = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class BlockedAddress(OSError):
    """A resolver found an address that must not be called. The message is shown to the operator."""


class Resolver(Protocol):
    """Looks host names up."""

    async def resolve(self, host: str, port: int, /) -> list[str]:
        """The IP addresses of `host`, to be connected to at `port`. Raises `OSError`, a `BlockedAddress` among them."""

    async def close(self) -> None:
        """Gives up what it holds."""


class Guard(Protocol):
    """Decides which hosts and addresses a sender may connect to."""

    def check_host(self, host: str, port: int, /) -> list[str]:
        """Why this host must not be called; empty if it may. Literal addresses come here, to no resolver."""

    def check_address(self, host: str, address: str, port: int, /) -> list[str]:
        """Why the address that `host` led to must not be connected to; empty if it may."""

    def resolver(self) -> Resolver | None:
        """Looks up host names or raises `BlockedAddress`; None for the system's. The sender closes it."""


class OpenGuard:
    """Lets every host and address be called."""

    def check_host(self, _host: str, _port: int, /) -> list[str]:
        return []

    def check_address(self, _host: str, _address: str, _port: int, /) -> list[str]:
        return []

    def resolver(self) -> Resolver | None:
        return None


def check_target(url: str, guard: Guard) -> list[str]:
    """Why `url` must not be called, as far as can be said without asking for addresses; empty if it may."""
    refusals = check_url(url)
    if refusals:
        return refusals
    origin, _ = split_url(url)
    return guard.check_host(origin.raw_host or "", origin.port or 0)


def check_url(url: str) -> list[str]:
    """Everything that is wrong with the form of `url`; empty if nothing is."""
    return list(_url_refusals(url))


@lru_cache(maxsize=256)
def _url_refusals(url: str) -> tuple[str, ...]:
    if len(url) > URL_LENGTH_LIMIT:
        return (f"the URL has {len(url)} characters; at most {URL_LENGTH_LIMIT} are allowed",)
    if _FORBIDDEN_IN_URL.search(url) or _LONE_SURROGATE.search(url):
        return ("the URL holds a space, backslash or control character; write it percent-encoded",)
    authority = _AUTHORITY.match(url)
    if authority is None:
        return (f"the URL must begin with http:// or https://, not with {url[:8]!r}",)
    _, at, location = authority[1].rpartition("@")
    host, port = _split_location(location)
    refusals = []
    if at:
        refusals.append("the URL holds credentials; send them in a header instead")
    if not _is_port(port):
        refusals.append(f"the URL's port {port[1:20]!r} is not a number from 1 to 65535")
    if not host:
        refusals.append("the URL names no host")
    elif not refusals:
        refusals += _host_refusals(url, host)
    return tuple(refusals)


def _split_location(location: str) -> tuple[str, str]:
    """Host and port, each as written: with the brackets of the one and the colon of the other."""
    colon = location.find(":", location.find("]") + 1 if location.startswith("[") else 0)
    return (location, "") if colon < 0 else (location[:colon], location[colon:])


def _is_port(port: str) -> bool:
    """Stricter than the URL library, which reads "+80", "8_0" and other scripts' digits as ports."""
    return port in ("", ":") or bool(_PORT.fullmatch(port) and 1 <= int(port[1:]) <= 65535)


def _host_refusals(url: str, written: str) -> list[str]:
    shown = f"the URL's host {written[:100]!r}"
    try:
        host = split_url(url)[0].raw_host or ""
    except MalformedUrl:
        return [f"{shown} cannot be read"]
    if written.startswith("["):
        return [] if _is_address(host, version=6) else [f"{shown} is not an IPv6 address"]
    if not _HOST_NAME.fullmatch(host):
        return [f"{shown} is neither a host name nor an address"]
    # Systems read 2130706433, 0x7f.1 and 127.1 as addresses, each in its own way.
    if _NUMERIC_LABEL.fullmatch(host.rstrip(".").rpartition(".")[2]) and not _is_address(host, version=4):
        return [f"{shown} must be written as four decimal numbers, such as 192.0.2.1"]
    return []


def _is_address(host: str, version: int) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.version == version and "%" not in host


def check_headers(headers: Mapping[str, str]) -> list[str]:
    """Everything that is wrong with the headers of a webhook; empty if nothing is."""
    refusals = []
    if len(headers) > HEADER_COUNT_LIMIT:
        refusals.append(f"there are {len(headers)} headers; at most {HEADER_COUNT_LIMIT} are allowed")
    seen: set[str] = set()
    for name, value in headers.items():
        refusals += _header_refusals(name, value)
        folded = name.lower()
        if folded in seen:
            refusals.append(f"header {name[:100]!r} is given twice; upper and lower case make no difference")
        seen.add(folded)
    return refusals


def _header_refusals(name: str, value: str) -> list[str]:
    shown = repr(name[:100])
    if not _TOKEN.fullmatch(name):
        return [f"header name {shown} may hold only letters, digits and !#$%&'*+-.^_`|~"]
    refusals = []
    if name.lower() in REFUSED_HEADERS or name.lower().startswith("proxy-"):
        refusals.append(f"header {shown} belongs to the connection and cannot be set")
    if _FORBIDDEN_IN_VALUE.search(value) or _LONE_SURROGATE.search(value):
        refusals.append(f"the value of header {shown} holds a line break or control character")
    if len(name) + len(value.encode(errors="replace")) > HEADER_SIZE_LIMIT:
        refusals.append(f"header {shown} is larger than {HEADER_SIZE_LIMIT} bytes")
    return refusals
