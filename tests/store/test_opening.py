"""A database that cannot be used says what is wrong with it and what to do, and shows no password."""

from __future__ import annotations

import asyncio
import sqlite3
import struct
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from perdure.domain.errors import Unavailable
from perdure.store.interface import StoreOptions
from perdure.store.postgres import PostgresStore
from perdure.store.postgres import store as postgres_module
from perdure.store.sqlite import SqliteStore
from perdure.testing import VirtualClock
from tests.store.databases import PostgresDatabase

ENCRYPTION_REQUEST = 80877103


async def open_file(path: Path) -> str:
    """Why the file cannot be used as a database."""
    store = SqliteStore(str(path), StoreOptions("here"), VirtualClock())
    with pytest.raises(Unavailable) as refused:
        await store.open()
    await store.close()
    return str(refused.value)


async def test_a_file_in_no_folder_says_which_one_to_make(tmp_path: Path) -> None:
    path = tmp_path / "no such folder" / "perdure.db"

    said = await open_file(path)

    assert f"The database file {path} cannot be opened: there is no folder {path.parent}. Make it" in said


async def test_a_folder_is_no_database(tmp_path: Path) -> None:
    said = await open_file(tmp_path)

    assert f"The database file {tmp_path} cannot be opened: it is a folder. Name a file in it" in said


async def test_another_sort_of_file_is_no_database_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("buy milk")

    said = await open_file(path)

    assert f"The file {path} is no SQLite database. Name another one in server.database_url" in said
    assert path.read_text() == "buy milk"


async def test_a_read_only_file_says_who_must_be_allowed_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "perdure.db"
    path.touch()
    connect = sqlite3.connect

    def connect_as_somebody_else(path: Path, **options: Any) -> sqlite3.Connection:
        # What SQLite does with a file that it may not write. (No file is read-only for root, who may run this.)
        connection: sqlite3.Connection = connect(f"file:{path}?mode=ro", uri=True, **options)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_as_somebody_else)

    said = await open_file(path)

    assert f"The database file {path} is read-only. Let this user write to it, and to its folder." in said


async def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    store = SqliteStore(str(path), StoreOptions("here"), VirtualClock())
    await store.open()
    await store.close()
    pages = path.read_bytes()
    path.write_bytes(pages[:4096] + b"\xff" * (len(pages) - 4096))

    assert f"The database file {path} is damaged" in await open_file(path)


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    store = PostgresStore("postgresql://nobody:hunter2@127.0.0.1:1/nothing", StoreOptions("here"), VirtualClock())

    with pytest.raises(Unavailable, match=r"nobody:\*\*\*@127.0.0.1:1/nothing does not answer"):
        await store.open()


@pytest.mark.parametrize(
    ("state", "reason", "advice"),
    [
        ("28P01", 'password authentication failed for user "app"', "refuses the role or its password"),
        ("28000", 'role "app" does not exist', "create or admit it"),
        ("28000", 'no pg_hba.conf entry for host "10.0.0.1"', "create or admit it"),
        ("3D000", 'database "shop" does not exist', "Create it, or name another one"),
        ("42501", 'permission denied for database "shop"', "must be allowed to connect"),
        ("53300", "sorry, too many clients already", "does not answer"),
    ],
)
async def test_a_server_that_does_not_let_us_in_says_what_to_do(state: str, reason: str, advice: str) -> None:
    async with refusing_server(state, reason) as port:
        store = PostgresStore(f"postgresql://app:hunter2@127.0.0.1:{port}/shop", StoreOptions("here"), VirtualClock())
        with pytest.raises(Unavailable) as refused:
            await store.open()

    said = str(refused.value)
    assert f"postgresql://app:***@127.0.0.1:{port}/shop" in said
    assert reason in said
    assert advice in said


async def test_a_role_that_may_create_no_tables_says_what_it_needs(
    postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_connection: object) -> None:
        raise asyncpg.InsufficientPrivilegeError("permission denied for schema public")

    monkeypatch.setattr(postgres_module, "migrate", refuse)
    store = postgres_database.make_store(StoreOptions("here"), VirtualClock())

    with pytest.raises(
        Unavailable, match=r"permission denied for schema public\. It must be allowed to connect, and to"
    ):
        await store.open()


async def test_an_address_that_makes_no_sense_shows_nothing_of_its_password() -> None:
    store = PostgresStore("postgresql://app:hunter/2@127.0.0.1/shop", StoreOptions("here"), VirtualClock())

    with pytest.raises(Unavailable, match=r"app:\*\*\*@127.0.0.1/shop is not understood") as refused:
        await store.open()

    assert "hunter" not in "".join(traceback.format_exception(refused.value))


@asynccontextmanager
async def refusing_server(state: str, reason: str) -> AsyncIterator[int]:
    """The port of a PostgreSQL that answers every connection with this error."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            size, code = struct.unpack("!II", await reader.readexactly(8))
            await reader.readexactly(size - 8)
            if code != ENCRYPTION_REQUEST:
                break
            writer.write(b"N")
        fields = {"S": "FATAL", "V": "FATAL", "C": state, "M": reason}
        body = b"".join(f"{name}{value}\0".encode() for name, value in fields.items()) + b"\0"
        writer.write(b"E" + struct.pack("!I", len(body) + 4) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
