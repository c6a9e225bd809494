"""Who may be called, what opens more, and that a name leads nowhere else than was checked."""

from __future__ import annotations

import pytest

from perdure.assemble import make_egress
from perdure.config import Server, Settings, Webhooks
from perdure.webhooks.address_guard import AddressGuard, Openings
from perdure.webhooks.guard import BlockedAddress, OpenGuard, check_target
from tests.support.receiver import Receiver
from tests.webhooks.names import FakeNames
from tests.webhooks.support import MakeSender, webhook_to

CLOSED = Openings()
PRIVATE = Openings(private_networks=True)
LOOPBACK = Openings(loopback=True)
LISTED = Openings(allowed=("10.20.0.0/16", "fd12::/16", "Billing.Internal.", "169.254.7.0/24", "127.0.0.9"))
EVERYTHING = Openings(private_networks=True, loopback=True, allowed=("0.0.0.0/0", "::/0", "metadata.google.internal"))


@pytest.mark.parametrize(
    ("openings", "url", "words"),
    [
        (
            CLOSED,
            "http://10.0.0.1/",
            "is a private address; allow it with PERDURE_ALLOW_PRIVATE_NETWORKS=1 or webhooks.allowed",
        ),
        (
            CLOSED,
            "http://127.0.0.1/",
            "this machine itself; allow it with PERDURE_ALLOW_LOOPBACK=1 or webhooks.allowed",
        ),
        (CLOSED, "http://localhost/", "the host localhost is a loopback address"),
        (CLOSED, "http://LOCALHOST./", "the host localhost is a loopback address"),
        (CLOSED, "http://a.localhost/", "loopback"),
        (CLOSED, "http://169.254.1.1/", "is a link-local address; allow it with webhooks.allowed"),
        (PRIVATE, "http://127.0.0.1/", "loopback"),
        (PRIVATE, "http://169.254.1.1/", "link-local"),
        (PRIVATE, "http://[fd00:ec2::254]/", "a metadata service of a cloud, which is never called"),
        (PRIVATE, "http://100.100.100.200/", "metadata"),
        (LOOPBACK, "http://10.0.0.1/", "private"),
        (LOOPBACK, "http://0.0.0.0/", "an unspecified address, which is never called"),
        (LISTED, "http://10.21.0.1/", "private"),
        (LISTED, "http://127.0.0.1/", "loopback"),
        (LISTED, "http://metadata/", "metadata"),
        (EVERYTHING, "http://169.254.169.254/", "never called"),
        (EVERYTHING, "http://metadata.google.internal/", "never called"),
        (EVERYTHING, "http://Metadata.Google.Internal./", "never called"),
        (EVERYTHING, "http://instance-data/", "never called"),
        (EVERYTHING, "http://224.0.0.1/", "never called"),
        (EVERYTHING, "http://[::]/", "never called"),
    ],
)
def test_refusals_say_what_the_host_is_and_what_opens_it(openings: Openings, url: str, words: str) -> None:
    (refusal,) = check_target(url, AddressGuard(openings))
    assert words in refusal


@pytest.mark.parametrize(
    ("openings", "url"),
    [
        (CLOSED, "https://8.8.8.8/"),
        (CLOSED, "https://[2606:4700::1111]/"),
        (CLOSED, "https://example.com/"),
        (PRIVATE, "http://10.0.0.1/"),
        (PRIVATE, "http://192.168.1.1/"),
        (PRIVATE, "http://[fd12::1]/"),
        (PRIVATE, "http://100.64.0.1/"),
        (PRIVATE, "http://[::ffff:10.0.0.1]/"),
        (LOOPBACK, "http://127.0.0.1:9000/"),
        (LOOPBACK, "http://[::1]:9000/"),
        (LOOPBACK, "http://localhost:9000/"),
        (LISTED, "http://10.20.3.4/"),
        (LISTED, "http://[::ffff:10.20.3.4]/"),
        (LISTED, "http://[fd12::7]/"),
        (LISTED, "http://billing.internal/"),
        (LISTED, "http://169.254.7.1/"),
        (LISTED, "http://127.0.0.9/"),
    ],
)
def test_what_is_public_or_open_passes(openings: Openings, url: str) -> None:
    assert check_target(url, AddressGuard(openings)) == []


@pytest.mark.parametrize(
    ("server", "host_url", "port", "url"),
    [
        (Server(), "http://127.0.0.1:8000", None, "http://127.0.0.1:8000/task"),
        (Server(), "http://127.0.0.1:8000", None, "http://localhost:8000/task"),
        (Server(), "http://127.0.0.1:8000", None, "http://[::1]:8000/task"),
        (Server(), "http://127.0.0.1:8000", None, "http://[::ffff:127.0.0.1]:8000/task"),
        (Server(), "https://perdure.example.com", None, "https://perdure.example.com/task"),
        (Server(), "https://perdure.example.com", None, "https://PERDURE.example.com.:443/task"),
        (Server(), "https://perdure.example.com", None, "http://127.0.0.1:8000/task"),
        (Server(port=0), "https://perdure.example.com", 4711, "http://127.0.0.2:4711/task"),
        (Server(host="10.0.0.5"), "http://10.0.0.5:8000", None, "http://10.0.0.5:8000/"),
    ],
)
def test_our_own_api_is_not_called_whatever_is_open(server: Server, host_url: str, port: int | None, url: str) -> None:
    settings = Settings(
        server=server, webhooks=Webhooks(allow_private_networks=True, allow_loopback=True, allowed=("0.0.0.0/0",))
    )
    (refusal,) = make_egress(settings, host_url, port).check_url(url)
    assert "own API" in refusal


def test_loopback_is_open_while_only_loopback_can_call_us() -> None:
    url = "http://127.0.0.1:9000/"
    beyond = Settings(server=Server(host="0.0.0.0"))
    closed = Settings(webhooks=Webhooks(allow_loopback=False))
    assert make_egress(Settings(), "http://127.0.0.1:8000").check_url(url) == []
    assert make_egress(beyond, "http://127.0.0.1:8000").check_url(url) != []
    assert make_egress(closed, "http://127.0.0.1:8000").check_url(url) != []


async def test_the_resolver_returns_exactly_what_it_checked() -> None:
    resolver = AddressGuard(CLOSED, names=FakeNames({"a.test": [["8.8.8.8", "2606:4700::1111"]]})).resolver()
    assert await resolver.resolve("a.test", 443) == ["8.8.8.8", "2606:4700::1111"]


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"],
        ["8.8.8.8", "10.0.0.1"],
        ["8.8.8.8", "::1"],
        ["::ffff:127.0.0.1"],
        ["fe80::1%2"],
        ["64:ff9b::a00:1"],
        ["no address"],
    ],
)
async def test_one_bad_address_among_the_answers_is_enough(addresses: list[str]) -> None:
    resolver = AddressGuard(CLOSED, names=FakeNames({"mixed.test": [addresses]})).resolver()
    with pytest.raises(BlockedAddress, match=r"mixed\.test leads to"):
        await resolver.resolve("mixed.test", 80)


async def test_an_allowed_name_may_lead_inside_but_not_to_metadata() -> None:
    names = FakeNames({"billing.internal": [["10.9.9.9"], ["169.254.169.254"]]})
    resolver = AddressGuard(LISTED, names=names).resolver()
    assert await resolver.resolve("billing.internal", 80) == ["10.9.9.9"]
    with pytest.raises(BlockedAddress, match="never called"):
        await resolver.resolve("billing.internal", 80)


@pytest.mark.parametrize("answers", [None, [[]]], ids=["unknown name", "no addresses"])
async def test_a_name_that_cannot_be_looked_up_is_a_dns_error(
    answers: list[list[str]] | None, make_sender: MakeSender
) -> None:
    names = FakeNames({} if answers is None else {"gone.test": answers})
    sender = await make_sender(guard=AddressGuard(CLOSED, names=names))
    answer = await sender.send(webhook_to("http://gone.test/"))
    assert (answer.status, answer.error_code) == (None, "dns_error")


async def test_a_name_that_changes_its_mind_is_refused(make_sender: MakeSender, receiver: Receiver) -> None:
    names = FakeNames({"rebind.test": [["8.8.8.8"], ["127.0.0.1"]]})
    guard = AddressGuard(CLOSED, names=names)
    url = receiver.url("/hook").replace("127.0.0.1", "rebind.test")
    # It was public when it was handed in, and when somebody looked.
    assert check_target(url, guard) == []
    assert await guard.resolver().resolve("rebind.test", 80) == ["8.8.8.8"]
    answer = await (await make_sender(guard=guard)).send(webhook_to(url))

    assert (answer.status, answer.error_code) == (None, "blocked_address")
    assert answer.describe().startswith("rebind.test leads to 127.0.0.1, which is a loopback address")
    assert names.asked == ["rebind.test", "rebind.test"]
    assert receiver.requests == []


async def test_a_name_is_looked_up_once_and_the_answer_is_what_is_called(
    make_sender: MakeSender, receiver: Receiver
) -> None:
    # A second look would find another address.
    names = FakeNames({"once.test": [["127.0.0.1"], ["10.0.0.1"]]})
    guard = AddressGuard(LOOPBACK, names=names)
    sender = await make_sender(guard=guard)
    answer = await sender.send(webhook_to(receiver.url("/hook").replace("127.0.0.1", "once.test")))

    assert answer.accepted
    assert names.asked == ["once.test"]


async def test_the_addresses_of_a_name_are_tried_one_after_the_other(
    make_sender: MakeSender, receiver: Receiver
) -> None:
    names = FakeNames({"several.test": [["127.0.0.2", "127.0.0.3", "127.0.0.1"]], "none.test": [["127.0.0.2", "::1"]]})
    sender = await make_sender(guard=AddressGuard(LOOPBACK, names=names))
    url = receiver.url("/hook")

    assert (await sender.send(webhook_to(url.replace("127.0.0.1", "several.test")))).accepted
    answer = await sender.send(webhook_to(url.replace("127.0.0.1", "none.test")))
    assert answer.error_code == "connection_error"
    assert len(receiver.requests) == 1


class ForgetfulGuard(AddressGuard):
    """Checks neither hosts nor answers of name servers, as if both had been got around."""

    def check_host(self, _host: str, _port: int, /) -> list[str]:
        return []

    def resolver(self) -> FakeNames:
        return FakeNames({"around.test": [["127.0.0.1"]]})


@pytest.mark.parametrize("host", ["around.test", "127.0.0.1", "[::ffff:127.0.0.1]"])
async def test_nothing_is_connected_to_unchecked(host: str, make_sender: MakeSender, receiver: Receiver) -> None:
    sender = await make_sender(guard=ForgetfulGuard(CLOSED))
    answer = await sender.send(webhook_to(receiver.url("/hook").replace("127.0.0.1", host)))

    assert (answer.status, answer.error_code) == (None, "blocked_address")
    assert receiver.requests == []


def test_the_open_guard_is_open() -> None:
    assert OpenGuard().check_host("127.0.0.1", 80) == []
    assert OpenGuard().check_address("x", "127.0.0.1", 80) == []
