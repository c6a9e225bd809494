"""Where an IP address leads: out into the world, into this machine or network, or nowhere that may be called.

The standard library's `is_global` is not asked: it lets pass translated and tunnelled forms, multicast and site-local
addresses. Of IPv6 only what is global unicast by assignment is public, everything else is not.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Reach(StrEnum):
    """What an address is; the text completes "…, which is"."""

    PUBLIC = "a public address"
    LOOPBACK = "a loopback address: this machine itself"
    PRIVATE = "a private address"
    SHARED = "an address of a carrier's network (100.64.0.0/10)"
    LINK_LOCAL = "a link-local address"
    DOCUMENTATION = "an address for documentation or benchmarks"
    RESERVED = "a reserved address"
    TUNNELLED = "a tunnelled or translated form of another address"
    MULTICAST = "a multicast address"
    UNSPECIFIED = "an unspecified address"
    METADATA = "a metadata service of a cloud"


#: What `webhooks.allow_private_networks` opens.
PRIVATE_REACHES = frozenset({Reach.PRIVATE, Reach.SHARED})
#: What nothing opens: nobody means to call these.
NEVER_CALLED = frozenset({Reach.MULTICAST, Reach.UNSPECIFIED, Reach.METADATA})

#: Metadata services hand out the machine's own credentials to whoever asks.
METADATA_ADDRESSES = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.169.253",
        "169.254.170.2",
        "169.254.170.23",
        "169.254.0.23",
        "169.254.10.10",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "fd00:ec2::254",
        "fd00:ec2::253",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fe80::a9fe:a9fe",
    )
)
METADATA_NAMES = frozenset(
    {
        "metadata",
        "metadata.google.internal",
        "metadata.goog",
        "metadata.internal",
        "metadata.azure.internal",
        "metadata.azure.com",
        "metadata.tencentyun.com",
        "metadata.platformequinix.com",
        "instance-data",
        "instance-data.ec2.internal",
    }
)

_IPV4: Sequence[tuple[IPv4Network, Reach]] = [
    (IPv4Network(text), reach)
    for text, reach in (
        ("0.0.0.0/8", Reach.UNSPECIFIED),
        ("10.0.0.0/8", Reach.PRIVATE),
        ("100.64.0.0/10", Reach.SHARED),
        ("127.0.0.0/8", Reach.LOOPBACK),
        ("169.254.0.0/16", Reach.LINK_LOCAL),
        ("172.16.0.0/12", Reach.PRIVATE),
        ("192.0.0.0/24", Reach.RESERVED),
        ("192.0.2.0/24", Reach.DOCUMENTATION),
        ("192.88.99.0/24", Reach.TUNNELLED),
        ("192.168.0.0/16", Reach.PRIVATE),
        ("198.18.0.0/15", Reach.DOCUMENTATION),
        ("198.51.100.0/24", Reach.DOCUMENTATION),
        ("203.0.113.0/24", Reach.DOCUMENTATION),
        ("224.0.0.0/4", Reach.MULTICAST),
        ("240.0.0.0/4", Reach.RESERVED),
    )
]
_IPV6: Sequence[tuple[IPv6Network, Reach]] = [
    (IPv6Network(text), reach)
    for text, reach in (
        ("::/128", Reach.UNSPECIFIED),
        ("::1/128", Reach.LOOPBACK),
        # IPv4-compatible and IPv4-translated forms.
        ("::/96", Reach.TUNNELLED),
        ("::ffff:0:0:0/96", Reach.TUNNELLED),
        ("64:ff9b:1::/48", Reach.TUNNELLED),
        # Teredo and 6to4.
        ("2001::/32", Reach.TUNNELLED),
        ("2002::/16", Reach.TUNNELLED),
        ("2001:db8::/32", Reach.DOCUMENTATION),
        ("2001:2::/48", Reach.DOCUMENTATION),
        ("3fff::/20", Reach.DOCUMENTATION),
        ("2001::/23", Reach.RESERVED),
        ("fc00::/7", Reach.PRIVATE),
        ("fec0::/10", Reach.PRIVATE),
        ("fe80::/10", Reach.LINK_LOCAL),
        ("ff00::/8", Reach.MULTICAST),
    )
]
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_TRANSLATED = IPv6Network("64:ff9b::/96")


def parse_address(text: str) -> Address | None:
    """The address that the text is, without zone; an IPv4-mapped one as the IPv4 address that it leads to."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def reach_of(address: Address) -> Reach:
    """Where an address leads, as `parse_address` returned it."""
    if address in METADATA_ADDRESSES:
        return Reach.METADATA
    if isinstance(address, IPv4Address):
        return next((reach for network, reach in _IPV4 if address in network), Reach.PUBLIC)
    if address.ipv4_mapped is not None:
        return reach_of(address.ipv4_mapped)
    if address in _TRANSLATED:
        # Networks without IPv4 reach public receivers by this form; of anything else it is a way around.
        return _reach_of_translated(IPv4Address(int(address) & 0xFFFF_FFFF))
    found = next((reach for network, reach in _IPV6 if address in network), None)
    if found is not None:
        return found
    return Reach.PUBLIC if address in _GLOBAL_UNICAST else Reach.RESERVED


def _reach_of_translated(inner: IPv4Address) -> Reach:
    reach = reach_of(inner)
    return reach if reach is Reach.PUBLIC or reach in NEVER_CALLED else Reach.TUNNELLED
