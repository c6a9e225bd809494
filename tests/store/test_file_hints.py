"""Processes that share a SQLite file hear of each other's changes, and not of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure.store.interface import EVERYTHING, Session, StoreOptions
from perdure.store.sqlite import SqliteStore
from perdure.store.sqlite import store as sqlite_store


async def _write(store: SqliteStore, name: str) -> None:
    async def add(session: Session) -> None:
        await session.query("INSERT INTO lock (name) VALUES (?)", [name])

    await store.write(add)


async def test_what_another_process_wrote_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "LISTEN_SECS", 0.01)
    here, there = (SqliteStore(str(tmp_path / "shared.db"), StoreOptions(name)) for name in ("here", "there"))
    await here.open()
    await there.open()
    words: list[str] = []
    heard = asyncio.Event()

    def hear(word: str) -> None:
        words.append(word)
        heard.set()

    listening = asyncio.create_task(here.listen(hear))
    try:
        for number in range(20):
            await _write(here, f"own {number}")
        await _write(there, "another's")
        await asyncio.wait_for(heard.wait(), 10)
    finally:
        listening.cancel()
        await asyncio.wait([listening])
        await here.close()
        await there.close()

    assert words == [EVERYTHING]
