"""Tasks submitted within the caller's own transaction: they exist if and when it is committed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from perdure import Perdure
from perdure.domain.errors import NotFound
from tests.support.postgres import PostgresServer


@asynccontextmanager
async def transaction(url: str, *, commit: bool) -> AsyncIterator[Any]:
    """A transaction of a user who keeps JSON in an own way."""
    if url.startswith("sqlite"):
        file = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        file.row_factory = sqlite3.Row
        file.execute("BEGIN IMMEDIATE")
        yield file
        assert file.row_factory is sqlite3.Row
        file.execute("COMMIT" if commit else "ROLLBACK")
        file.close()
        return
    connection = await asyncpg.connect(url)
    await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    begun = connection.transaction()
    await begun.start()
    yield connection
    await (begun.commit() if commit else begun.rollback())
    await connection.close()


async def test_what_is_committed_runs(app: Perdure, database_url: str) -> None:
    @app.task
    async def double(number: dict[str, int]) -> int:
        return 2 * number["n"]

    await double.submit({"n": 1})  # the schema exists
    async with app.worker():
        async with transaction(database_url, commit=True) as connection:
            handles = await double.options(connection=connection).submit_many([{"n": n} for n in range(20)])
        assert [await handle.result(timeout=30) for handle in handles] == [2 * n for n in range(20)]


async def test_a_batch_is_committed_with_its_transaction(app: Perdure, database_url: str) -> None:
    @app.task
    async def note(number: int) -> int:
        return number

    await note.submit(0)  # the schema exists
    async with (
        transaction(database_url, commit=True) as connection,
        app.batch("within", connection=connection) as batch,
    ):
        child = batch.add(note, 2, after=batch.add(note, 1))
        with pytest.raises(ValueError, match=r"app\.batch"):
            batch.add(note.options(connection=connection), 3)
    async with (
        transaction(database_url, commit=False) as connection,
        app.batch("never", connection=connection) as never,
    ):
        never.add(note, 4)
    async with app.worker():
        await batch.wait(timeout=30)
        assert await child.handle.result() == 2
    with pytest.raises(NotFound):
        await never.wait()


def test_plain_code_has_transactions_on_a_file(tmp_path: Path) -> None:
    with Perdure(f"sqlite:///{tmp_path}/jobs.db") as app:

        @app.task
        def note(number: int) -> int:
            return number

        note.submit_blocking(0)  # the schema exists
        file = sqlite3.connect(tmp_path / "jobs.db")
        file.execute("CREATE TABLE customer (name TEXT)")
        within = note.options(connection=file)
        with file:
            file.execute("INSERT INTO customer VALUES ('Ada')")
            kept = [within.submit_blocking(1), *within.submit_many_blocking([2, 3])]
            with app.batch(connection=file) as batch:
                batch.add(note, 4)
        file.execute("INSERT INTO customer VALUES ('Bob')")
        lost = within.submit_blocking(5)
        file.rollback()

        assert [asyncio.run(handle.status()) for handle in kept] == ["Pending"] * 3
        assert file.execute("SELECT name FROM customer").fetchall() == [("Ada",)]
        with pytest.raises(TimeoutError):
            batch.wait_blocking(timeout=0.05)
        with pytest.raises(NotFound):
            lost.wait_blocking()
        file.close()


def test_plain_code_cannot_use_a_connection_of_an_event_loop(postgres_url: str) -> None:
    with Perdure(postgres_url) as app:

        @app.task
        def note() -> None: ...

        with pytest.raises(TypeError, match="await submit"):
            note.options(connection=object()).submit_blocking()


async def test_a_connection_to_another_database_is_refused(
    app: Perdure, database_url: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    @app.task
    async def note() -> None: ...

    await note.submit()
    if database_url.startswith("sqlite"):
        other = f"sqlite:///{tmp_path}/other.db"
        sqlite3.connect(tmp_path / "other.db").close()
    else:
        other = postgres_server.create_database()
    async with transaction(other, commit=False) as connection:
        with pytest.raises(ValueError, match=r"other\.db|no tables of perdure"):
            await note.options(connection=connection).submit()
    if not database_url.startswith("sqlite"):
        postgres_server.drop_database(other)


async def test_what_is_rolled_back_never_was(app: Perdure, database_url: str) -> None:
    @app.task
    async def note() -> None: ...

    await note.submit()
    async with transaction(database_url, commit=False) as connection:
        handle = await note.options(connection=connection).submit()
    with pytest.raises(NotFound):
        await handle.task()


async def test_without_a_transaction_it_is_refused(app: Perdure, database_url: str) -> None:
    @app.task
    async def note() -> None: ...

    with pytest.raises(TypeError, match="connection is needed"):
        await note.options(connection=object()).submit()
    if database_url.startswith("sqlite"):
        file = sqlite3.connect(database_url.removeprefix("sqlite:///"))
        with pytest.raises(ValueError, match="no transaction"):
            await note.options(connection=file).submit()
        file.close()
    else:
        connection = await asyncpg.connect(database_url)
        with pytest.raises(ValueError, match="no transaction"):
            await note.options(connection=connection).submit()
        await connection.close()
