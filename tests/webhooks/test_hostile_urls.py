"""URLs that must not be called, by whatever way they come in: nothing of ours ever knocks at the canary."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

import aiohttp.web
import pytest

from perdure.assemble import make_instance
from perdure.config import Server, Settings, Webhooks
from perdure.domain.errors import Invalid
from perdure.testing import VirtualClock
from perdure.webhooks.address_guard import AddressGuard, Openings
from perdure.webhooks.egress import Egress
from perdure.webhooks.secrets import Secrets
from perdure.webhooks.sender import HttpSender
from tests.engine.definitions import Definition, draft, task, webhook
from tests.engine.driven import HOST_URL, Driven
from tests.support.receiver import ReceivedRequest, Receiver
from tests.webhooks.names import FakeNames

OWN_PORT = 8000
#: `{port}` is the canary's, which listens on loopback. All of these are refused without asking for addresses.
LITERAL = [
    "http://127.0.0.1:{port}/",
    "https://127.0.0.1:{port}/",
    "http://127.0.0.2:{port}/",
    "http://127.255.255.254:{port}/",
    "http://127.1:{port}/",
    "http://127.0.1:{port}/",
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0x7f.0.0.1:{port}/",
    "http://0X7F.1:{port}/",
    "http://017700000001:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://0177.0.0.01:{port}/",
    "http://127.0.0.1.:{port}/",
    "http://127.000.000.001:{port}/",
    "http://\uff11\uff12\uff17.0.0.1:{port}/",
    "http://127\u30020\u30020\u30021:{port}/",
    "http://\u2460\u2461\u2466.0.0.1:{port}/",
    "http://0.0.0.0:{port}/",
    "http://0:{port}/",
    "http://0.1.2.3:{port}/",
    "http://localhost:{port}/",
    "http://LocalHost:{port}/",
    "http://localhost.:{port}/",
    "http://anything.localhost:{port}/",
    "http://[::1]:{port}/",
    "http://[0:0:0:0:0:0:0:1]:{port}/",
    "http://[0000:0000:0000:0000:0000:0000:0000:0001]:{port}/",
    "http://[::]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[::FFFF:7F00:0001]:{port}/",
    "http://[::ffff:0:127.0.0.1]:{port}/",
    "http://[64:ff9b::127.0.0.1]:{port}/",
    "http://[64:ff9b::7f00:1]:{port}/",
    "http://[64:ff9b:1::127.0.0.1]:{port}/",
    "http://[2002:7f00:1::]:{port}/",
    "http://[2001:0:7f00:1::]:{port}/",
    "http://[::1%25lo]:{port}/",
    "http://[::1%lo]:{port}/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[fd00::1]/",
    "http://[fc00::1]/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://100.64.0.1/",
    "http://169.254.1.1/",
    "http://192.0.0.1/",
    "http://192.0.2.1/",
    "http://198.18.0.1/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[::ffff:169.254.169.254]/",
    "http://2852039166/",
    "http://[fd00:ec2::254]/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://metadata/",
    "http://metadata.google.internal/",
    "http://METADATA.google.internal./computeMetadata/v1/",
    "http://instance-data/",
    "http://user:pass@127.0.0.1:{port}/",
    "http://example.com@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}@example.com/",
    "http://example.com\\@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\\.example.com/",
    "http://example.com:80:{port}/",
    "ftp://127.0.0.1:{port}/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/_GET",
    "//127.0.0.1:{port}/",
    "http:127.0.0.1:{port}/",
    "http:///127.0.0.1:{port}/",
    "http://perdure.test:80/task",
    f"http://127.0.0.1:{OWN_PORT}/task",
]
#: Names that look harmless: refused when they are looked up.
NAMES = {
    "loop.test": ["127.0.0.1"],
    "loop6.test": ["::1"],
    "mapped.test": ["::ffff:127.0.0.1"],
    "mixed.test": ["8.8.8.8", "127.0.0.1"],
    "inside.test": ["10.0.0.1"],
    "cloud.test": ["169.254.169.254"],
    "zone.test": ["fe80::1%2"],
}
BY_NAME = [f"http://{name}:{{port}}/" for name in NAMES]


class Canary:
    """Listens on loopback, and counts who knocks."""

    def __init__(self) -> None:
        self.knocks = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._knock, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _knock(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.knocks += 1
        writer.close()


@pytest.fixture
async def canary() -> AsyncIterator[Canary]:
    async with Canary() as canary:
        yield canary
        assert canary.knocks == 0


@pytest.fixture
async def driven(tmp_path: Path) -> AsyncIterator[Driven]:
    """An engine for which only `receiver.test` is open besides the public."""
    answers = {name: [addresses] for name, addresses in NAMES.items()}
    names = FakeNames({**answers, "receiver.test": [["127.0.0.1"]]})
    own = [HOST_URL, f"http://127.0.0.1:{OWN_PORT}"]
    guard = AddressGuard(Openings(allowed=("receiver.test",)), own, names)
    egress = Egress(guard, Secrets({"TOKEN": "s3cret-token"}))
    sender = HttpSender(concurrency=16, connect_timeout_secs=2, response_limit_bytes=65536, egress=egress)
    settings = Settings(
        server=Server(database_url=f"sqlite:///{tmp_path}/test.db"), webhooks=Webhooks(delivery_retry=(1,))
    )
    async with AsyncExitStack() as opened:
        clock = VirtualClock()
        instance = make_instance(settings, HOST_URL, sender, clock, egress=egress)
        await instance.store.open()
        opened.push_async_callback(instance.store.close)
        opened.push_async_callback(instance.engine.stop)
        yield Driven(instance, clock)


def urls(canary: Canary, templates: list[str]) -> list[str]:
    return [template.replace("{port}", str(canary.port)) for template in templates]


def at_receiver(receiver: Receiver, path: str) -> str:
    return receiver.url(path).replace("127.0.0.1", "receiver.test")


def test_there_are_enough_of_them() -> None:
    assert len(set(LITERAL)) == len(LITERAL) >= 60


async def test_none_can_be_submitted(driven: Driven, canary: Canary) -> None:
    for url in urls(canary, LITERAL):
        for place in ("on_start", "on_success", "on_failure", "on_cancel"):
            action = webhook(url) if place == "on_start" else [webhook(url)]
            with pytest.raises(Invalid) as refused:
                await driven.commands.submit(draft([task("a", **{place: action})]))
            assert {problem.field.rpartition(".")[2] for problem in refused.value.problems} == {"url"}, url
            assert "pass" not in str(refused.value).replace("passwd", ""), url


async def _store(driven: Driven, monkeypatch: pytest.MonkeyPatch, definitions: list[Definition]) -> dict[str, str]:
    """Submit what the checks would refuse."""
    with monkeypatch.context() as lax:
        lax.setattr(Egress, "check_url", lambda _self, _url: [])
        return await driven.submit(*definitions)


async def test_none_is_called_on_start(driven: Driven, canary: Canary, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = urls(canary, LITERAL + BY_NAME)
    definitions = [task(str(number), on_start=webhook(url)) for number, url in enumerate(hostile)]
    ids = await _store(driven, monkeypatch, definitions)
    await driven.start()

    for number, url in enumerate(hostile):
        (attempt,) = await driven.attempts(ids[str(number)])
        assert attempt["code"] in ("blocked_address", "invalid_request"), url
        assert attempt["error_class"] == "final", url
        assert await driven.status(ids[str(number)]) == "Failure"


async def test_none_is_called_at_the_end(
    driven: Driven, canary: Canary, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = urls(canary, LITERAL + BY_NAME)
    started = webhook(at_receiver(receiver, "/start"))
    definitions = [task(str(number), on_start=started, on_success=[webhook(url)]) for number, url in enumerate(hostile)]
    ids = await _store(driven, monkeypatch, definitions)
    await driven.start()
    assert len(receiver.requests) == len(hostile)
    for id in ids.values():
        await driven.report(id)
    await driven.deliver()

    for number, url in enumerate(hostile):
        delivery = (await driven.deliveries(ids[str(number)]))["success:0"]
        assert (delivery["status"], delivery["last_status"]) == ("failure", None), url
    assert len(receiver.requests) == len(hostile)


async def test_none_is_called_because_a_receiver_asked_for_it(
    driven: Driven, canary: Canary, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    hostile = urls(canary, LITERAL + BY_NAME)

    async def ask(request: ReceivedRequest) -> aiohttp.web.StreamResponse:
        action = webhook(hostile[int(request.path.removeprefix("/start/"))])
        return aiohttp.web.Response(text=json.dumps(action), content_type="application/json")

    for number in range(len(hostile)):
        receiver.answer(f"/start/{number}", ask)
    ids = await driven.submit(
        *[
            task(str(number), on_start=webhook(at_receiver(receiver, f"/start/{number}")))
            for number in range(len(hostile))
        ]
    )
    await driven.start()
    for id in ids.values():
        await driven.commands.cancel(id)
    await driven.deliver()

    for number, url in enumerate(hostile):
        deliveries = await driven.deliveries(ids[str(number)])
        if number < len(LITERAL):
            assert list(deliveries) == ["start:0"], url
        else:
            assert deliveries["cancel:0"]["status"] == "failure", url
            assert "leads to" in deliveries["cancel:0"]["last_error"], url
    dropped = [record for record in caplog.records if "cancel action in the answer was dropped" in record.message]
    assert len(dropped) == len(LITERAL)
    assert all(record.__dict__["fields"]["key"] for record in dropped)


async def test_a_receiver_does_not_get_our_secrets_sent(driven: Driven, receiver: Receiver) -> None:
    action = webhook(at_receiver(receiver, "/stolen"), headers={"X": "${secret:TOKEN}"})
    receiver.answer("/start", json=action)
    id = await driven.submit_one(task(on_start=webhook(at_receiver(receiver, "/start"))))
    await driven.start()
    await driven.commands.cancel(id)
    await driven.deliver()
    assert receiver.requests_to("/stolen") == []
    assert list(await driven.deliveries(id)) == ["start:0"]
