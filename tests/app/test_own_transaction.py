"""Tasks submitted within the caller's own transaction: they exist if and when it is committed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from perdure import Perdure
from perdure.domain.errors import NotFound


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
