"""What an address is, in whatever form it is written."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.webhooks.address_guard import AddressGuard, Openings
from perdure.webhooks.addresses import Reach, parse_address, reach_of
from perdure.webhooks.guard import check_target

REFUSED_IPV4 = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
]
REFUSED_IPV6 = [
    "::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/32",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
]


@pytest.mark.parametrize(
    ("text", "reach"),
    [
        ("8.8.8.8", Reach.PUBLIC),
        ("172.32.0.1", Reach.PUBLIC),
        ("100.128.0.1", Reach.PUBLIC),
        ("2606:4700::1111", Reach.PUBLIC),
        ("::ffff:8.8.8.8", Reach.PUBLIC),
        ("64:ff9b::8.8.8.8", Reach.PUBLIC),
        ("127.0.0.1", Reach.LOOPBACK),
        ("::1", Reach.LOOPBACK),
        ("::ffff:127.0.0.1", Reach.LOOPBACK),
        ("::ffff:7f00:1", Reach.LOOPBACK),
        ("10.1.2.3", Reach.PRIVATE),
        ("fd12::1", Reach.PRIVATE),
        ("fec0::1", Reach.PRIVATE),
        ("100.64.0.1", Reach.SHARED),
        ("fe80::1%eth0", Reach.LINK_LOCAL),
        ("64:ff9b::10.0.0.1", Reach.TUNNELLED),
        ("64:ff9b:1::1", Reach.TUNNELLED),
        ("::10.0.0.1", Reach.TUNNELLED),
        ("::ffff:0:10.0.0.1", Reach.TUNNELLED),
        ("2002:a00:1::", Reach.TUNNELLED),
        ("2001:0:1::1", Reach.TUNNELLED),
        ("224.0.0.1", Reach.MULTICAST),
        ("ff02::1", Reach.MULTICAST),
        ("255.255.255.255", Reach.RESERVED),
        ("4000::1", Reach.RESERVED),
        ("0.0.0.0", Reach.UNSPECIFIED),
        ("::", Reach.UNSPECIFIED),
        ("169.254.169.254", Reach.METADATA),
        ("::ffff:169.254.169.254", Reach.METADATA),
        ("64:ff9b::169.254.169.254", Reach.METADATA),
        ("fd00:ec2::254", Reach.METADATA),
        ("100.100.100.200", Reach.METADATA),
    ],
)
def test_an_address_is_known_for_what_it_is(text: str, reach: Reach) -> None:
    address = parse_address(text)
    assert address is not None
    assert reach_of(address) is reach


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f.0.0.1", "1.2.3.4.5", "::1::", "[::1]"])
def test_what_is_no_address_is_none(text: str) -> None:
    assert parse_address(text) is None


def _inside(networks: list[str]) -> st.SearchStrategy[IPv4Address | IPv6Address]:
    return (
        st.sampled_from(networks)
        .map(ip_network)
        .flatmap(
            lambda network: st.integers(int(network[0]), int(network[-1])).map(
                lambda number: IPv4Address(number) if network.version == 4 else IPv6Address(number)
            )
        )
    )


def _forms(address: IPv4Address) -> list[str]:
    """IPv4 in every way that a host can be written."""
    number, parts = int(address), str(address).split(".")
    six = [
        f"::ffff:{address}",
        f"::{address}",
        f"::ffff:0:{address}",
        f"64:ff9b::{address}",
        f"64:ff9b:1::{address}",
        f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1",
        f"2001:0:{number >> 16:x}:{number & 0xFFFF:x}::1",
        f"2001::{(number ^ 0xFFFFFFFF) >> 16:x}:{(number ^ 0xFFFFFFFF) & 0xFFFF:x}",
    ]
    exploded = [ipaddress.IPv6Address(one).exploded for one in six]
    return [
        str(address),
        f"{address}.",
        str(number),
        hex(number),
        f"0{number:o}",
        ".".join(f"0{int(part):o}" for part in parts),
        ".".join(hex(int(part)) for part in parts),
        f"{parts[0]}.{number & 0xFFFFFF}",
        f"{parts[0]}.{parts[1]}.{number & 0xFFFF}",
        "".join(chr(0xFF10 + int(one)) if one.isdigit() else one for one in str(address)),
        *[f"[{one}]" for one in [*six, *exploded, *[one.upper() for one in exploded]]],
        *[f"[{one}%25eth0]" for one in six],
    ]


@given(_inside(REFUSED_IPV4), st.sampled_from(["http", "https"]), st.integers(1, 65535))
def test_no_form_of_a_refused_ipv4_address_passes(address: IPv4Address, scheme: str, port: int) -> None:
    guard = AddressGuard(Openings())
    passed = [form for form in _forms(address) if not check_target(f"{scheme}://{form}:{port}/hook", guard)]
    assert passed == []
    assert guard.check_address("name.test", str(address), port)


@given(_inside(REFUSED_IPV6))
def test_no_form_of_a_refused_ipv6_address_passes(address: IPv6Address) -> None:
    guard = AddressGuard(Openings())
    forms = [str(address), address.exploded, address.exploded.upper(), f"{address}%25eth0", f"{address}%eth0"]
    assert [form for form in forms if not check_target(f"http://[{form}]/", guard)] == []
    assert guard.check_address("name.test", str(address), 80)
    assert guard.check_address("name.test", f"{address}%eth0", 80)


@given(st.ip_addresses())
def test_what_passes_is_public_by_the_standard_library_too(address: IPv4Address | IPv6Address) -> None:
    if AddressGuard(Openings()).check_address("name.test", str(address), 80) == []:
        inner = parse_address(str(address))
        assert inner is not None
        assert inner.is_global or inner in ip_network("64:ff9b::/96")
        assert not inner.is_multicast
