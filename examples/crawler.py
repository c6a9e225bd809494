"""A crawler for an API with a rate limit.

The API answers four requests and then `429 Too Many Requests` with `Retry-After: 1`. The crawler waits for as long as
it is asked to, which costs no retry, never has more than two requests under way, and gives up at once on what is not
there.

    python examples/crawler.py

With DATABASE_URL it runs on that database, else on a file that is gone afterwards.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic
from urllib.error import HTTPError
from urllib.request import urlopen

from perdure import Context, Final, NoResult, Perdure, Retry, RetryAfter, TaskHandle

app = Perdure()


def say(line: str) -> None:
    """Several threads speak here; a line that is written at once stays whole."""
    sys.stdout.write(f"{line}\n")


TWO_AT_A_TIME = {
    "type": "Concurrency",
    "matcher": {"kind": "fetch", "status": "Running", "fields": []},
    "max_concurrency": 2,
}


@dataclass(frozen=True)
class Page:
    title: str
    words: int


@app.task(retry=Retry.exponential("1s", max_retries=2), rules=[TWO_AT_A_TIME], timeout="30s")
def fetch(url: str, ctx: Context) -> Page:
    """A plain function: the worker runs it in a thread."""
    try:
        with urlopen(url, timeout=10) as answer:
            content = json.load(answer)
    except HTTPError as error:
        error.close()
        say(f"{ctx.name}: {error.code} {error.reason}")
        if error.code == 429:
            raise RetryAfter(error.headers["Retry-After"], "asked to slow down") from error
        if error.code < 500:
            raise Final(f"{error.code} {error.reason}", code=str(error.code)) from error
        raise  # everything else is retried by the policy
    say(f"{ctx.name}: fetched in attempt {ctx.attempt}")
    return Page(content["title"], len(content["text"].split()))


@app.task
def summarize(pages: list[str], ctx: Context) -> dict[str, int]:
    words = {}
    for page in pages:
        try:
            words[page] = ctx.result_of(page)["words"]
        except NoResult as problem:
            say(f"left out: {problem}")
    return words


async def crawl(site: str, pages: list[str]) -> TaskHandle[dict[str, int]]:
    """One task a page, and one when all of them are over; the handle leads to that."""
    async with app.batch("crawl") as batch:
        fetched = [batch.add(fetch.options(key=page, name=page), f"{site}/{page}") for page in pages]
        summary = batch.add(summarize, pages, after=fetched, on="always")
    return summary.handle


class LimitedApi(BaseHTTPRequestHandler):
    """Somebody else's: four answers, then a second of rest."""

    answers_left = 4
    rest_ends_at: float | None = None

    def do_GET(self) -> None:
        api = LimitedApi
        if api.rest_ends_at is not None and monotonic() >= api.rest_ends_at:
            api.answers_left, api.rest_ends_at = 4, None
        number = int(self.path.rpartition("-")[2])
        if api.answers_left == 0:
            api.rest_ends_at = api.rest_ends_at or monotonic() + 1
            self.answer(429, {}, {"Retry-After": "1"})
        elif number > 9:
            self.answer(404, {}, {})
        else:
            api.answers_left -= 1
            self.answer(200, {"title": f"Page {number}", "text": "word " * number}, {})

    def answer(self, status: int, content: object, headers: dict[str, str]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing; the crawler tells enough."""


@contextmanager
def serving() -> Iterator[str]:
    """The API, on a free port of this machine."""
    with HTTPServer(("127.0.0.1", 0), LimitedApi) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def main() -> None:
    async with app, app.worker():
        with serving() as site:
            summary = await crawl(site, [f"page-{number}" for number in range(1, 11)])
            words = await summary.result(timeout=60)
        say(f"{len(words)} pages, {sum(words.values())} words")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        os.environ.setdefault("DATABASE_URL", f"sqlite:///{folder}/crawler.db")
        asyncio.run(main())
