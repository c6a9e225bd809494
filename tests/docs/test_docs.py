"""What the documentation says is so: its links lead somewhere and its commands run as shown."""

from __future__ import annotations

import re
import shlex
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.docs.commands import run_block
from tests.docs.markdown import Block, Page, find_pages, page
from tests.docs.programs import Server, Shell, environment, free_port, receiving
from tests.support.postgres import PostgresServer

PAGES = list(find_pages())
SERVER, RECEIVER = "127.0.0.1:8000", "127.0.0.1:9000"
DATABASE = "postgresql://perdure@db.internal/perdure"

#: Folders of one machine, its hosts, and where packages come from.
_OF_ONE_MACHINE = re.compile(r"(?<![\w.}])/(?:root|home|tmp|work|Users|var/folders)\b|\b(?:pypi|registry|mirror)\.")


def _names(pages: list[Page]) -> list[str]:
    return [page.name for page in pages]


# Links and words


@pytest.mark.parametrize("page", PAGES, ids=_names(PAGES))
def test_every_link_leads_somewhere(page: Page) -> None:
    for link in page.links:
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.path.parent / target).resolve() if target else page.path
        assert path.exists(), f"{page.name} links to {link}, which does not exist"
        if anchor:
            assert anchor in Page(path).anchors, f"{page.name} links to {link}, but there is no such heading"


def test_every_page_is_linked_from_the_index() -> None:
    index = page("docs/README.md")
    linked = {(index.path.parent / link.partition("#")[0]).resolve() for link in index.links}
    for one in PAGES:
        if one.path != index.path and one.path.is_relative_to(index.path.parent):
            assert one.path in linked, f"{one.name} is missing in docs/README.md"


@pytest.mark.parametrize("page", PAGES, ids=_names(PAGES))
def test_no_page_speaks_of_one_machine(page: Page) -> None:
    assert _OF_ONE_MACHINE.findall(page.text) == []


# Commands


def _serves(block: Block) -> bool:
    return block.text.startswith("perdure serve")


def _runnable(page: Page) -> list[Block]:
    return [block for block in page.blocks if block.language == "sh" and not _serves(block)]


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    "name", ["README.md", "docs/api.md", "docs/command_line.md", "docs/retries.md", "docs/webhooks.md"]
)
def test_commands_do_what_their_page_says(
    name: str, database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # With curl on SQLite, with its stand-in on PostgreSQL: so both are known to do.
    url = None if database == "sqlite" else request.getfixturevalue("postgres_url")
    _run_page(page(name), tmp_path, url, stand_in=database == "postgres")


def test_commands_for_operators_work(tmp_path: Path) -> None:
    _run_page(page("docs/operations.md"), tmp_path, None)


def _run_page(page: Page, folder: Path, database_url: str | None, *, stand_in: bool = False) -> None:
    """Run all blocks of a page in order, against a server and with the receiver that the page shows."""
    variables = environment(folder, database_url, stand_in=stand_in)
    with ExitStack() as stack:
        server = stack.enter_context(Server(folder, variables, "--port", "0"))
        server.wait_until_started()
        receiver = f"127.0.0.1:{free_port()}"

        def here(text: str) -> str:
            return text.replace(SERVER, server.address).replace(RECEIVER, receiver)

        for block in page.blocks:
            if block.language == "python" and "serve_forever" in block.text:
                port = receiver.rpartition(":")[2]
                stack.enter_context(receiving(block.text.replace("9000", port), int(port), folder))
        shell = stack.enter_context(Shell(folder, variables))
        for block in _runnable(page):
            run_block(shell, block, here)


SERVING = [
    (block, line)
    for one in PAGES
    for block in one.blocks
    if block.language == "sh" and _serves(block)
    for line in block.text.splitlines()
]


@pytest.mark.parametrize(("block", "line"), SERVING, ids=[line for _, line in SERVING])
def test_servers_start_as_shown(block: Block, line: str, tmp_path: Path, postgres_server: PostgresServer) -> None:
    _, _, *arguments = shlex.split(line, comments=True)
    url = postgres_server.create_database()
    arguments = [url if argument == DATABASE else argument for argument in arguments]
    try:
        with Server(tmp_path, environment(tmp_path), *arguments, "--port", "0") as server:
            if block.answer is not None:
                assert server.wait() == 2
                assert "\n".join(server.lines) == block.answer.text.strip()
            else:
                server.wait_until_started()
                assert server.stop() == 0
    finally:
        postgres_server.drop_database(url)
