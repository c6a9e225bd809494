"""Addresses, URLs and names that settings may hold, and what follows from them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from perdure.config import Server, Settings, Webhooks, is_loopback_host, new_instance_id
from perdure.config.addresses import (
    check_allowed_destinations,
    check_database_url,
    check_host_url,
    check_instance_id,
    check_listening_host,
)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        *((check_listening_host, host) for host in ("127.0.0.1", "::1", "0.0.0.0", "localhost", "db-1.lan")),
        *((check_database_url, url) for url in ("sqlite:///x", "postgresql://h/d", "postgres://u:p@h/d")),
        *((check_host_url, url) for url in ("http://h", "https://h:1/path/", "http://[::1]:8000")),
        (check_instance_id, "blue-1.example:42"),
        (
            check_allowed_destinations,
            ("10.0.0.0/8", "fd00::/8", "10.1.2.3", "billing.internal", "my_service"),
        ),
    ],
)
def test_accepted(check: Callable[[Any], None], value: object) -> None:
    check(value)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        *((check_listening_host, host) for host in ("[::1]", "http://x", "a:80", "256.1.1.1", "-a", "a b")),
        *((check_database_url, url) for url in ("sqlite:x", "sqlite:///", "mysql://h/d", "/x.db", "postgresql://")),
        *(
            (check_host_url, url)
            for url in ("h", "ftp://h", "http://", "http://h:0", "http://h:x", "http://h?a", "http://u:p@h")
        ),
        *((check_host_url, url) for url in ("http://h#f", "http://h /", "http://[::1")),
        *((check_instance_id, name) for name in ("", "a b", "ü", "x" * 201)),
        *(
            (check_allowed_destinations, ("ok.example", entry))
            for entry in (
                "10.0.0.1/8",
                "0x7f.1",
                "2130706433",
                "*.example.com",
                "http://x",
                "10.0.0.0/33",
                "",
            )
        ),
    ],
)
def test_refused(check: Callable[[Any], None], value: object) -> None:
    with pytest.raises(ValueError, match=r"^must be "):
        check(value)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    settings = Settings(server=Server(host=host))

    assert is_loopback_host(host) is expected
    assert settings.listens_on_loopback_only is expected
    assert settings.loopback_allowed is expected


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("allowed", [True, False])
def test_loopback_that_is_set_is_not_worked_out(host: str, allowed: bool) -> None:
    settings = Settings(server=Server(host=host), webhooks=Webhooks(allow_loopback=allowed))

    assert settings.loopback_allowed is allowed


@pytest.mark.parametrize(
    ("server", "bound_port", "expected"),
    [
        (Server(), None, "http://127.0.0.1:8000"),
        (Server(port=0), 49152, "http://127.0.0.1:49152"),
        (Server(host="::1"), None, "http://[::1]:8000"),
        (Server(host="0.0.0.0"), None, "http://127.0.0.1:8000"),
        (Server(host="::"), None, "http://[::1]:8000"),
        (Server(host_url="https://tasks.example.com/"), 49152, "https://tasks.example.com"),
    ],
)
def test_the_url_that_receivers_call_back(server: Server, bound_port: int | None, expected: str) -> None:
    assert Settings(server=server).callback_url(bound_port) == expected


def test_an_instance_id_names_the_host_and_is_new_at_every_start() -> None:
    ids = {new_instance_id() for _ in range(50)}

    assert len(ids) == 50
    assert all(name.startswith(f"{socket.gethostname()}-") for name in ids)
