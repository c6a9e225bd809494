"""Which URLs and headers are refused, and in which words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.webhooks.guard import check_headers, check_url
from perdure.webhooks.message import write_request
from perdure.webhooks.target import target_of


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com",
        "https://example.com/",
        "HTTPS://EXAMPLE.COM/Hook",
        "http://example.com:8080/a?b=c#d",
        "http://example.com:/hook",
        "http://example.com./hook",
        "http://localhost:1/",
        "http://my_service.internal/",
        "http://192.0.2.1:65535/",
        "http://[2001:db8::1]:80/",
        "http://[::ffff:192.0.2.1]/",
        "https://bücher.example/käse",
        "https://xn--bcher-kva.example/",
        "http://example.com/a:b@c?d=e@f",
        "http://3com.example/",
        "http://example.com/" + "a" * 8173,
    ],
)
def test_ordinary_urls_pass(url: str) -> None:
    assert check_url(url) == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "must begin with http:// or https://"),
        ("example.com/hook", "must begin with http:// or https://"),
        ("//example.com/hook", "must begin with http:// or https://"),
        ("ftp://example.com/", "must begin with http:// or https://"),
        ("file:///etc/passwd", "must begin with http:// or https://"),
        ("javascript:alert(1)", "must begin with http:// or https://"),
        ("http:example.com", "must begin with http:// or https://"),
        ("http:example.com/?u=http://x/", "must begin with http:// or https://"),
        ("http:/example.com", "must begin with http:// or https://"),
        ("http://", "names no host"),
        ("http:///hook", "names no host"),
        ("http://:80/", "names no host"),
        ("http://?x", "names no host"),
        ("http://user:secret@example.com/", "holds credentials"),
        ("http://user@example.com/", "holds credentials"),
        ("http://@example.com/", "holds credentials"),
        ("http://example.com@evil.example/", "holds credentials"),
        ("http://example.com:0/", "port '0' is not a number from 1 to 65535"),
        ("http://example.com:65536/", "port '65536' is not"),
        ("http://example.com:http/", "port 'http' is not"),
        ("http://example.com:+80/", "port '+80' is not"),
        ("http://example.com:8_0/", "port '8_0' is not"),
        ("http://example.com:\uff18\uff10/", "is not a number from 1 to 65535"),
        ("http://example.com/a b", "space, backslash or control character"),
        ("http://example.com/\r\nX: 1", "space, backslash or control character"),
        ("http://example.com/\n", "space, backslash or control character"),
        ("\thttp://example.com/", "space, backslash or control character"),
        ("http://example.com/\x00", "space, backslash or control character"),
        ("http://example.com/\x7f", "space, backslash or control character"),
        ("http://example.com\\@evil.example/", "space, backslash or control character"),
        ("http://example.com/\ud800", "space, backslash or control character"),
        ("http://example.com/" + "a" * 8174, "at most 8192"),
        ("http://[::1/", "port"),
        ("http://[/", "cannot be read"),
        ("http://[::1]x/", "cannot be read"),
        ("http://[::1]x:80/", "cannot be read"),
        ("http://x[::1]/", "port"),
        ("http://[1.2.3.4]/", "cannot be read"),
        ("http://\u2100.example/", "cannot be read"),
        ("http://[v1.x]/", "not an IPv6 address"),
        ("http://[fe80::1%25eth0]/", "not an IPv6 address"),
        ("http://exa%6dple.com/", "neither a host name nor an address"),
        ("http://a..example/", "neither a host name nor an address"),
        ("http://a;b/", "neither a host name nor an address"),
        ("http://" + "a." * 127 + "example/", "neither a host name nor an address"),
        ("http://2130706433/", "four decimal numbers"),
        ("http://0x7f.1/", "four decimal numbers"),
        ("http://0x7f000001/", "four decimal numbers"),
        ("http://127.1/", "four decimal numbers"),
        ("http://0177.0.0.1/", "four decimal numbers"),
        ("http://127.0.0.1./", "four decimal numbers"),
        ("http://\uff11\uff12\uff17.1/", "four decimal numbers"),
        ("http://256.1.1.1/", "four decimal numbers"),
    ],
)
def test_other_urls_are_refused_in_plain_words(url: str, words: str) -> None:
    (refusal,) = check_url(url)
    assert words in refusal
    assert refusal.isprintable()


def test_everything_wrong_with_an_authority_is_said_at_once() -> None:
    assert len(check_url("http://me:secret@:0/")) == 3


@pytest.mark.parametrize("place", ["127.1:0", "\u2100.example", "[::1", ""])
def test_refusals_do_not_repeat_credentials(place: str) -> None:
    refusals = check_url(f"http://me:secret@{place}/")
    assert refusals
    assert "secret" not in " ".join(refusals)


@given(st.text(max_size=40), st.sampled_from(["", "http://", "https://", "http://example.com/", "http://[::1]"]))
def test_whatever_is_written_gets_an_answer_and_what_passes_can_be_called(text: str, start: str) -> None:
    url = start + text
    if check_url(url) == []:
        target = target_of(url)
        assert target.host
        asked = target.asked_with("handle")
        assert asked.startswith("/")
        assert asked.isascii()
        assert asked.partition("?")[2].endswith("handle=handle")
        assert write_request("POST", target.authority, asked, {}, None).count(b"\r\n") == 5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Authorization", "Bearer ${secret:TOKEN}"),
        ("x-custom_1.2", "a\tb"),
        ("X-Empty", ""),
        ("X-Name", "Jürgen"),
        ("Idempotency-Key", "theirs, and replaced"),
    ],
)
def test_ordinary_headers_pass(name: str, value: str) -> None:
    assert check_headers({name: value}) == []


@pytest.mark.parametrize("name", ["", "X Y", "X:Y", "X\r\nY", "X\x00", "Ümlaut", "X\n", "(x)", "X\ud800"])
def test_header_names_are_tokens(name: str) -> None:
    (refusal,) = check_headers({name: "1"})
    assert "may hold only letters, digits" in refusal
    assert refusal.isprintable()


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\x00b", "a\x1bb", "\x7f", "\ud800"])
def test_header_values_hold_no_line_breaks_or_control_characters(value: str) -> None:
    (refusal,) = check_headers({"X-Custom": value})
    assert refusal == "the value of header 'X-Custom' holds a line break or control character"


@pytest.mark.parametrize(
    "name",
    [
        "Connection",
        "keep-alive",
        "Proxy-Authorization",
        "proxy-connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "HOST",
        "Content-Length",
        "Expect",
    ],
)
def test_headers_of_the_connection_cannot_be_set(name: str) -> None:
    (refusal,) = check_headers({name: "x"})
    assert refusal == f"header {name!r} belongs to the connection and cannot be set"


def test_headers_are_bounded_in_number_and_size() -> None:
    assert check_headers({f"X-{number}": "" for number in range(100)}) == []
    assert check_headers({f"X-{number}": "" for number in range(101)}) == [
        "there are 101 headers; at most 100 are allowed"
    ]
    assert check_headers({"X": "a" * 8191}) == []
    assert check_headers({"X": "ä" * 4096}) == ["header 'X' is larger than 8192 bytes"]


def test_a_header_is_given_once_whatever_its_case() -> None:
    (refusal,) = check_headers({"X-Custom": "1", "x-custom": "2"})
    assert refusal.startswith("header 'x-custom' is given twice")
