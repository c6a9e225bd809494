"""What a listening address means, and which addresses and URLs a setting may hold."""

from __future__ import annotations

import ipaddress
import re
import secrets
import socket
from urllib.parse import urlsplit

SQLITE_PREFIX = "sqlite:///"

_HOST_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?", re.IGNORECASE | re.ASCII)
_NUMERIC_LABEL = re.compile(r"\d+|0x[0-9a-f]*", re.IGNORECASE | re.ASCII)


def new_instance_id() -> str:
    """An id for this start of this instance: the host name and a random suffix."""
    return f"{socket.gethostname()}-{secrets.token_hex(4)}"


def is_loopback_host(host: str) -> bool:
    """Whether a listening address can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listening_url(host: str, port: int) -> str:
    """The URL of a listening address; for "every address" the one by which this machine reaches itself."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def check_listening_host(value: str) -> None:
    """Accept an IP address or a host name, without scheme, brackets or port."""
    if not _is_address(value) and not _is_host_name(value):
        raise ValueError("must be an IP address or a host name, such as 127.0.0.1, ::1, 0.0.0.0 or localhost")


def check_database_url(value: str) -> None:
    """Accept the two databases that there are."""
    if not re.match(r"sqlite:///.|postgres(ql)?://.", value):
        raise ValueError("must be sqlite:///path or postgresql://user:password@host:port/database")


def check_host_url(value: str) -> None:
    """Accept an http(s) URL to which a path can be appended."""
    complaint = "must be an http:// or https:// URL without query and fragment, such as https://perdure.example.com"
    try:
        parts = urlsplit(value)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        raise ValueError(complaint) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_valid or re.search(r"[\s?#@]", value):
        raise ValueError(complaint)


def check_instance_id(value: str) -> None:
    """Accept what fits in a log line and a database column."""
    if not re.fullmatch(r"[\x21-\x7e]{1,200}", value):
        raise ValueError("must be 1 to 200 printable ASCII characters without blanks")


def check_allowed_destinations(values: tuple[str, ...]) -> None:
    """Accept addresses, CIDR networks and host names."""
    for value in values:
        if not _is_network(value) and not _is_host_name(value):
            raise ValueError(
                f"must be addresses, CIDR networks without host bits, or host names, such as 10.0.0.0/8 or "
                f"billing.internal, and {value!r} is none of them"
            )


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def _is_network(value: str) -> bool:
    try:
        ipaddress.ip_network(value)
    except ValueError:
        return False
    return True


def _is_host_name(value: str) -> bool:
    labels = value.removesuffix(".").split(".")
    # A name that ends in a number would be read as an IPv4 address by resolvers, in forms such as 0x7f.1.
    return (
        len(value) <= 253
        and all(len(label) <= 63 and _HOST_LABEL.fullmatch(label) for label in labels)
        and not _NUMERIC_LABEL.fullmatch(labels[-1])
    )
