"""Scheme, host and port: what is called, whatever is asked of it."""

from __future__ import annotations

import pytest

from perdure.domain.destinations import NOWHERE, destination_of


@pytest.mark.parametrize(
    ("url", "destination"),
    [
        ("https://pay.example/charges?order=7#x", "https://pay.example"),
        ("https://pay.example:443", "https://pay.example"),
        ("http://pay.example:80/", "http://pay.example"),
        ("https://pay.example:8443/a", "https://pay.example:8443"),
        ("http://pay.example:443/", "http://pay.example:443"),
        ("HTTPS://Pay.Example./", "https://pay.example"),
        ("http://127.0.0.1:9000/hook", "http://127.0.0.1:9000"),
        ("http://[2001:DB8::1]:9000/", "http://[2001:db8::1]:9000"),
        ("https://b\u00fccher.example/", "https://b\u00fccher.example"),
    ],
)
def test_a_destination_is_scheme_host_and_port(url: str, destination: str) -> None:
    assert destination_of(url) == destination


@pytest.mark.parametrize(
    "url", ["", "x", "http://", "http://a:b/", "http://a:99999/", "http://[::1/", "//a/b", "http://:80/"]
)
def test_what_is_no_url_leads_nowhere(url: str) -> None:
    assert destination_of(url) == NOWHERE
