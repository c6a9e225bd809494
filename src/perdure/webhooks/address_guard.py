"""Who may be called: public addresses, and what the operator opened beyond them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from perdure.webhooks.addresses import (
    METADATA_NAMES,
    NEVER_CALLED,
    PRIVATE_REACHES,
    Address,
    Network,
    Reach,
    parse_address,
    reach_of,
)
from perdure.webhooks.guard import Resolver
from perdure.webhooks.resolver import CheckedResolver, SystemResolver

_HOSTS_REMEMBERED = 1024
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Openings:
    """What may be called besides the public."""

    private_networks: bool = False
    loopback: bool = False
    #: CIDR networks and host names.
    allowed: Sequence[str] = ()


class AddressGuard:
    """Lets public addresses be called, and what is open besides; never ourselves, never a metadata service.

    `own_urls` are the addresses of our own API: its callbacks' and the one it listens on.
    """

    def __init__(self, openings: Openings, own_urls: Iterable[str] = (), names: Resolver | None = None) -> None:
        self._openings = openings
        self._networks, self._names = _split_allowed(openings.allowed)
        self._own = frozenset(_location(url) for url in own_urls)
        self._own_loopback_ports = frozenset(port for host, port in self._own if _is_loopback(host))
        self._lookup = names
        # What is said of a host follows from its name and from what is open: neither changes.
        self._host_refusals = lru_cache(maxsize=_HOSTS_REMEMBERED)(self._judge_host)

    def check_host(self, host: str, port: int, /) -> list[str]:
        return list(self._host_refusals(host, port))

    def _judge_host(self, host: str, port: int) -> list[str]:
        name = _normalized(host)
        address = parse_address(name.strip("[]"))
        if address is not None:
            return self._judge(name, address, port, shown=str(address))
        if name in METADATA_NAMES:
            return [f"the host {name} is {Reach.METADATA}, which is never called"]
        if (name, port) in self._own:
            return [_own_refusal(name, port)]
        if name == "localhost" or name.endswith(".localhost"):
            return self._judge(name, ipaddress.IPv4Address("127.0.0.1"), port, shown=f"the host {name}")
        return []

    def check_address(self, host: str, address: str, port: int, /) -> list[str]:
        name, found = _normalized(host), parse_address(address)
        if found is None:
            return [f"{name} leads to {address[:100]!r}, which is no IP address"]
        shown = str(found) if parse_address(name.strip("[]")) is not None else f"{name} leads to {found}, which"
        return self._judge(name, found, port, shown)

    def resolver(self) -> Resolver:
        return CheckedResolver(self, self._lookup or SystemResolver())

    def _judge(self, name: str, address: Address, port: int, shown: str) -> list[str]:
        reach = reach_of(address)
        if (str(address), port) in self._own or (port in self._own_loopback_ports and reach is Reach.LOOPBACK):
            return [_own_refusal(name, port)]
        if reach is Reach.PUBLIC:
            return []
        if reach in NEVER_CALLED:
            return [f"{shown} is {reach}, which is never called"]
        if reach is Reach.LOOPBACK and self._openings.loopback:
            return []
        if reach in PRIVATE_REACHES and self._openings.private_networks:
            return []
        if name in self._names or any(address in network for network in self._networks):
            return []
        return [f"{shown} is {reach}; allow it with {_key_to(reach)}"]


def _split_allowed(allowed: Sequence[str]) -> tuple[list[Network], frozenset[str]]:
    networks: list[Network] = []
    names: set[str] = set()
    for entry in allowed:
        try:
            networks.append(ipaddress.ip_network(entry))
        except ValueError:
            names.add(_normalized(entry))
    return networks, frozenset(names)


def _normalized(host: str) -> str:
    return host.lower().rstrip(".")


def _location(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    host = _normalized(parts.hostname or "")
    address = parse_address(host)
    return (host if address is None else str(address)), parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)


def _is_loopback(host: str) -> bool:
    address = parse_address(host)
    return host == "localhost" or (address is not None and reach_of(address) is Reach.LOOPBACK)


def _own_refusal(name: str, port: int) -> str:
    return f"{name}:{port} is the address of this server's own API, which webhooks must not call"


def _key_to(reach: Reach) -> str:
    if reach in PRIVATE_REACHES:
        return "PERDURE_ALLOW_PRIVATE_NETWORKS=1 or webhooks.allowed"
    if reach is Reach.LOOPBACK:
        return "PERDURE_ALLOW_LOOPBACK=1 or webhooks.allowed"
    return "webhooks.allowed"
