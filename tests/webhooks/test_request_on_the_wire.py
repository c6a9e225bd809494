"""What a receiver sees of a request."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from perdure import __version__
from perdure.webhooks.message import write_request
from perdure.webhooks.sender import HttpSender
from perdure.webhooks.target import target_of
from tests.support.receiver import Receiver
from tests.webhooks.support import HANDLE, TASK_ID, StartRaw, saying, webhook_to

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


async def test_verb_body_and_headers_arrive_as_given(sender: HttpSender, receiver: Receiver) -> None:
    answer = await sender.send(
        webhook_to(receiver.url("/hook"), "PUT", '{"a": [1, "ä"]}', {"X-Custom": "one", "Authorization": "Bearer x"})
    )

    assert answer.accepted
    (request,) = receiver.requests
    assert request.method == "PUT"
    assert request.body == '{"a": [1, "ä"]}'.encode()
    assert request.headers["X-Custom"] == "one"
    assert request.headers["Authorization"] == "Bearer x"


async def test_our_headers_are_added(sender: HttpSender, receiver: Receiver) -> None:
    await sender.send(webhook_to(receiver.url(), body="{}"))

    headers = receiver.requests[0].headers
    assert headers["Idempotency-Key"] == f"{TASK_ID}:start:2"
    assert headers["X-Task-Id"] == TASK_ID
    assert headers["X-Task-Trigger"] == "start"
    assert headers["X-Task-Attempt"] == "2"
    assert headers["Content-Type"] == "application/json"
    assert headers["User-Agent"] == f"perdure/{__version__}"


async def test_our_headers_win_over_the_users_whatever_their_case(sender: HttpSender, receiver: Receiver) -> None:
    ours = [
        "idempotency-key",
        "X-TASK-ID",
        "x-task-trigger",
        "X-Task-attempt",
        "TraceParent",
        "accept-encoding",
    ]
    await sender.send(webhook_to(receiver.url(), headers=dict.fromkeys(ours, "theirs")))

    headers = receiver.requests[0].headers
    for name in ours:
        (value,) = headers.getall(name)
        assert value != "theirs"


async def test_the_user_may_name_content_type_and_user_agent(sender: HttpSender, receiver: Receiver) -> None:
    theirs = {"content-type": "application/vnd.acme+json", "user-agent": "acme/2"}
    await sender.send(webhook_to(receiver.url(), body="{}", headers=theirs))

    headers = receiver.requests[0].headers
    assert headers.getall("Content-Type") == ["application/vnd.acme+json"]
    assert headers.getall("User-Agent") == ["acme/2"]


async def test_any_answer_is_acceptable_unless_the_user_says_otherwise(sender: HttpSender, receiver: Receiver) -> None:
    await sender.send(webhook_to(receiver.url()))
    await sender.send(webhook_to(receiver.url(), headers={"accept": "text/plain"}))

    assert [request.headers.getall("Accept") for request in receiver.requests] == [["*/*"], ["text/plain"]]


async def test_each_request_has_a_trace_of_its_own(sender: HttpSender, receiver: Receiver) -> None:
    await sender.send(webhook_to(receiver.url()))
    await sender.send(webhook_to(receiver.url()))

    first, second = (request.headers["traceparent"] for request in receiver.requests)
    for traceparent in (first, second):
        assert re.fullmatch(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-01", traceparent)
    assert first != second


@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
async def test_without_a_body_nothing_is_said_about_one(verb: str, sender: HttpSender, start_raw: StartRaw) -> None:
    raw = await start_raw(saying(OK))
    assert (await sender.send(webhook_to(raw.url(), verb))).accepted

    assert "content-type" not in raw.heads[0].lower()
    assert "transfer-encoding" not in raw.heads[0].lower()


@pytest.mark.parametrize("verb", ["GET", "DELETE", "PATCH"])
async def test_any_verb_may_carry_a_body(verb: str, sender: HttpSender, receiver: Receiver) -> None:
    await sender.send(webhook_to(receiver.url(), verb, "[1]"))

    assert receiver.requests[0].method == verb
    assert receiver.requests[0].body == b"[1]"


async def test_the_receiver_reads_the_handle_from_the_query(sender: HttpSender, receiver: Receiver) -> None:
    await sender.send(webhook_to(receiver.url("/hook?a=1&b=x%20y")))

    assert receiver.requests[0].query == {"a": "1", "b": "x y", "handle": HANDLE}


@pytest.mark.parametrize(
    ("written", "on_the_wire"),
    [
        ("", "/?handle=H"),
        ("/", "/?handle=H"),
        ("?", "/?handle=H"),
        ("/hook", "/hook?handle=H"),
        ("/hook?", "/hook?handle=H"),
        ("?a=1", "/?a=1&handle=H"),
        ("/hook?a=1&", "/hook?a=1&handle=H"),
        ("/hook?flag", "/hook?flag&handle=H"),
        ("/hook?a=1#part", "/hook?a=1&handle=H"),
        ("/hook#part?a=1", "/hook?handle=H"),
        ("#part", "/?handle=H"),
        ("/a%2fb/%7e?x=%7E&y=a+b%2B", "/a%2fb/%7e?x=%7E&y=a+b%2B&handle=H"),
        ("/a/../b/./c//d", "/a/../b/./c//d?handle=H"),
        ("/a?next=http://x.y/?z=1&q=[1]", "/a?next=http://x.y/?z=1&q=[1]&handle=H"),
        ("/100%?a=%zz", "/100%?a=%zz&handle=H"),
        ("/käse?straße=ü%C3%BC", "/k%C3%A4se?stra%C3%9Fe=%C3%BC%C3%BC&handle=H"),
        ("/hook?handle=mine", "/hook?handle=mine&handle=H"),
    ],
)
async def test_the_users_url_is_sent_as_it_was_written(
    written: str, on_the_wire: str, sender: HttpSender, start_raw: StartRaw
) -> None:
    raw = await start_raw(saying(OK))
    assert (await sender.send(webhook_to(raw.url(written)))).accepted

    expected = on_the_wire.replace("=H", "=" + quote(HANDLE, safe=""))
    assert raw.heads[0].splitlines()[0] == f"POST {expected} HTTP/1.1"


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://example.com", "example.com"),
        ("http://EXAMPLE.com:80/", "example.com"),
        ("https://example.com:443/", "example.com"),
        ("https://example.com:80/", "example.com:80"),
        ("http://example.com.:8080/", "example.com:8080"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
        ("http://[::1]/", "[::1]"),
        ("http://[::1]:8080/", "[::1]:8080"),
    ],
)
def test_the_host_is_named_as_http_wants_it(url: str, authority: str) -> None:
    assert target_of(url).authority == authority


@pytest.mark.parametrize(("verb", "says"), [("GET", False), ("HEAD", False), ("POST", True), ("DELETE", True)])
def test_the_length_of_no_body_is_said_where_one_is_expected(verb: str, says: bool) -> None:
    assert (b"\r\nContent-Length: 0\r\n" in write_request(verb, "h", "/", {}, None)) is says


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n", "\r\n\r\n", "\x00"])
@pytest.mark.parametrize("place", ["verb", "authority", "target", "name", "value"])
def test_nothing_can_be_written_into_a_request(place: str, end: str) -> None:
    parts = {name: name.upper() + (end if name == place else "") for name in ("verb", "authority", "target")}
    headers = {f"X{end}" if place == "name" else "X": f"1{end}2" if place == "value" else "1"}
    with pytest.raises(ValueError, match=r"the verb is no word|holds a line break"):
        write_request(**parts, headers=headers, body=None)


async def test_a_handle_cannot_break_out_of_its_parameter(sender: HttpSender, receiver: Receiver) -> None:
    handle = "https://host/täsk?attempt=1&token=a+b/c=#x \r\nX-Evil: 1"
    await sender.send(webhook_to(receiver.url(), handle=handle))

    assert receiver.requests[0].query == {"handle": handle}
    assert "X-Evil" not in receiver.requests[0].headers


async def test_proxies_of_the_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch, sender: HttpSender, receiver: Receiver
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    assert (await sender.send(webhook_to(receiver.url()))).status == 200


async def test_cookies_are_not_carried_from_one_call_to_the_next(sender: HttpSender, receiver: Receiver) -> None:
    receiver.answer("/hook", headers={"Set-Cookie": "session=1; Path=/"})
    await sender.send(webhook_to(receiver.url("/hook")))
    await sender.send(webhook_to(receiver.url("/hook")))

    assert "Cookie" not in receiver.requests[1].headers
