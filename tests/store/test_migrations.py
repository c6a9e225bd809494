"""Any number of instances may start at once, on an empty database or on one that a newer version has changed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import asyncpg
import pytest

from perdure.domain.errors import SchemaMismatch
from perdure.domain.model import Executor
from perdure.domain.rules import lane_of
from perdure.store import migrations
from perdure.store.interface import Session, StoreOptions
from perdure.store.migrations import Migration, load_migrations
from perdure.store.postgres import PostgresStore
from perdure.store.records import FLAG_COLUMNS, TIME_COLUMNS
from perdure.store.sqlite import SqliteStore
from perdure.store.statements import Dialect
from perdure.store.verbs.claim import Claim, claim
from perdure.store.verbs.deliver import Room, take_deliveries
from perdure.testing import VirtualClock
from tests.store.databases import AnyStore, Database
from tests.store.schema import SQLITE_TYPES, Column, read_columns, read_indexes, read_keys, read_views

INSTANCES = 10
Found = TypeVar("Found")


@pytest.fixture(params=list(Dialect), ids=str)
def make_empty_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], AnyStore]:
    """Stores on one database that has no schema yet, by the name of their instance."""
    if request.param is Dialect.SQLITE:
        return lambda instance: SqliteStore(str(tmp_path / "empty.db"), StoreOptions(instance), VirtualClock())
    url = request.getfixturevalue("empty_postgres_url")
    return lambda instance: PostgresStore(url, StoreOptions(instance), VirtualClock(), pool_size=2)


@pytest.fixture
async def make_store(make_empty_store: Callable[[str], AnyStore]) -> AsyncIterator[Callable[[str], AnyStore]]:
    """The same, closed at the end."""
    made: list[AnyStore] = []

    def make(instance: str) -> AnyStore:
        made.append(make_empty_store(instance))
        return made[-1]

    yield make
    for store in made:
        await store.close()


async def _versions(store: AnyStore) -> list[tuple[int, str]]:
    rows = await store.read(lambda session: session.query("SELECT version, name FROM schema_version", []))
    return [(row["version"], row["name"]) for row in rows]


async def test_ten_instances_start_at_once_on_an_empty_database(make_store: Callable[[str], AnyStore]) -> None:
    stores = [make_store(f"instance {number}") for number in range(INSTANCES)]

    await asyncio.gather(*[store.open() for store in stores])

    steps = load_migrations(Dialect.SQLITE)
    assert await _versions(stores[0]) == [(step.version, step.name) for step in steps]
    for store in stores:
        assert await store.write(lambda session: session.fetch("open_lanes")) == []


async def test_starting_again_changes_nothing(make_store: Callable[[str], AnyStore]) -> None:
    first, second = make_store("first"), make_store("second")
    await first.open()
    before = await _versions(first)
    await first.write(lambda session: session.fetch("pause_scope", scope="kind", name="job"))

    await second.open()

    assert await _versions(second) == before
    assert len(await second.read(lambda session: session.fetch("list_pauses"))) == 1


async def test_a_newer_schema_is_refused(make_store: Callable[[str], AnyStore]) -> None:
    newer = make_store("newer")
    await newer.open()
    known = load_migrations(Dialect.SQLITE)[-1].version

    async def upgrade(session: Session) -> None:
        await session.query("INSERT INTO schema_version (version, name) VALUES (999, 'future')", [])

    await newer.write(upgrade)

    with pytest.raises(SchemaMismatch) as refused:
        await make_store("older").open()

    assert str(refused.value) == (
        f"The database has schema version 999, but this perdure knows versions up to {known}. "
        "It was upgraded by a newer perdure: install that version, or use another database."
    )


async def test_a_step_that_fails_leaves_nothing_behind(
    make_store: Callable[[str], AnyStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = load_migrations
    broken = Migration(500, "broken", "CREATE TABLE half_done (id text);\nCREATE TABLE half_done (id text);\n")
    monkeypatch.setattr(migrations, "load_migrations", lambda dialect: (*real(dialect), broken))
    with pytest.raises(Exception, match="half_done"):
        await make_store("failing").open()
    monkeypatch.undo()

    store = make_store("mended")
    await store.open()

    assert [version for version, _ in await _versions(store)] == [step.version for step in real(Dialect.SQLITE)]
    columns = await store.read(read_columns)
    assert "half_done" not in {column.table for column in columns}


async def test_tasks_of_an_older_version_are_started_and_told(
    make_store: Callable[[str], AnyStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = load_migrations
    monkeypatch.setattr(migrations, "load_migrations", lambda dialect: real(dialect)[:1])
    before = make_store("before")
    await before.open()
    await before.write(_leave_a_task)
    monkeypatch.undo()

    store = make_store("after")
    await store.open()

    now = store.clock.now()
    lease = timedelta(seconds=90)
    request = Claim(Executor.WEBHOOK, 10, lease_until=now + lease, stale=now - lease, per_destination=1)
    claimed = await store.write(lambda session: claim(session, request))
    assert [row["id"] for row in claimed.to_start] == [OLD_TASK]
    taken = await store.write(lambda session: take_deliveries(session, Room(10, 1), now + lease))
    assert [row["task_id"] for row in taken] == [OLD_TASK]


OLD_TASK = "01890a5d-ac96-774b-bcce-b302099a8057"


async def _leave_a_task(session: Session) -> None:
    """What an instance of the first version leaves behind: a pending task, and a webhook to be sent."""
    moment = "now()" if session.dialect is Dialect.POSTGRES else "0"
    actions = (
        '[{"kind": "Webhook", "trigger": "Start", "condition": null, "params": {"url": "http://a", "verb": "Post"}}]'
    )
    await session.query(
        "INSERT INTO task (id, batch_id, position, key, name, kind, namespace, lane, status, executor, completion,"
        " timeout, priority, rules, actions, created_at, last_updated) VALUES ("
        f"'{OLD_TASK}', '{OLD_TASK}', 0, 'k', 'n', 'j', 'd', {lane_of('webhook', 'd', 'j')}, 'pending', 'webhook',"
        f" 'callback', 60, 0, '[]', '{actions}', {moment}, {moment})",
        [],
    )
    past = "now() - interval '1 day'" if session.dialect is Dialect.POSTGRES else "0"
    columns = "id, task_id, trigger, condition, action_index, attempt, idempotency_key, status, params"
    params = '{"url": "http://a", "verb": "Post"}'
    values = f"'{OLD_TASK}', '{OLD_TASK}', 'end', 'success', 0, 7, '{OLD_TASK}:success:7', 'pending', '{params}'"
    await session.query(
        f"INSERT INTO webhook_execution ({columns}, next_send_at, created_at, updated_at)"
        f" VALUES ({values}, {past}, {past}, {past})",
        [],
    )


async def _on_both(
    tmp_path: Path, postgres_url: str, read: Callable[[Session], Awaitable[Found]]
) -> dict[Dialect, Found]:
    """What `read` finds in a fresh database of each kind."""
    options, clock = StoreOptions("here"), VirtualClock()
    stores: dict[Dialect, AnyStore] = {
        Dialect.POSTGRES: PostgresStore(postgres_url, options, clock, pool_size=2),
        Dialect.SQLITE: SqliteStore(str(tmp_path / "fresh.db"), options, clock),
    }
    found: dict[Dialect, Found] = {}
    for dialect, store in stores.items():
        await store.open()
        try:
            found[dialect] = await store.read(read)
        finally:
            await store.close()
    return found


async def test_both_databases_have_the_same_tables_and_columns(tmp_path: Path, postgres_url: str) -> None:
    found = await _on_both(tmp_path, postgres_url, read_columns)

    translated = {
        Column(column.table, column.name, SQLITE_TYPES[column.type], column.required)
        for column in found[Dialect.POSTGRES]
    }
    assert len(translated) > 80
    assert sorted(translated) == sorted(found[Dialect.SQLITE])


async def test_both_databases_have_the_same_indexes(tmp_path: Path, postgres_url: str) -> None:
    found = await _on_both(tmp_path, postgres_url, read_indexes)

    assert len(found[Dialect.POSTGRES]) > 10
    assert sorted(found[Dialect.POSTGRES]) == sorted(found[Dialect.SQLITE])


async def test_both_databases_have_the_same_keys(tmp_path: Path, postgres_url: str) -> None:
    found = await _on_both(tmp_path, postgres_url, read_keys)

    assert ("webhook_execution", "idempotency_key") in found[Dialect.POSTGRES]
    assert sorted(found[Dialect.POSTGRES]) == sorted(found[Dialect.SQLITE])


async def test_both_databases_have_the_same_views(tmp_path: Path, postgres_url: str) -> None:
    found = await _on_both(tmp_path, postgres_url, read_views)

    assert sorted(found[Dialect.POSTGRES]) == sorted(found[Dialect.SQLITE])


async def test_moments_and_flags_are_read_as_such_from_sqlite(tmp_path: Path, postgres_url: str) -> None:
    """SQLite keeps both as integers, and knows them by the names of their columns."""
    columns = (await _on_both(tmp_path, postgres_url, read_columns))[Dialect.POSTGRES]

    moments = {column.name for column in columns if column.type == "timestamp with time zone"}
    flags = {column.name for column in columns if column.type == "boolean"}
    others = {column.name for column in columns} - moments - flags
    assert moments <= TIME_COLUMNS
    assert flags <= FLAG_COLUMNS
    assert not others & (TIME_COLUMNS | FLAG_COLUMNS)


async def test_counters_cannot_be_negative(database: Database) -> None:
    store = database.make_store(StoreOptions("here"), VirtualClock())
    await store.open()
    columns = ", ".join(["id", "batch_id", "position", "key", "name", "kind", "namespace", "lane", "status"])
    rest = ", ".join(
        ["executor", "completion", "timeout", "priority", "rules", "actions", "created_at", "last_updated"]
    )
    id = "01890a5d-ac96-774b-bcce-b302099a8057"
    moment = "now()" if database.dialect is Dialect.POSTGRES else "0"
    try:
        for counter in ("waits", "success", "failures"):
            sql = (
                f"INSERT INTO task ({columns}, {rest}, {counter}) VALUES ('{id}', '{id}', 0, 'k', 'n', 'j', 'd', 0,"
                f" 'pending', 'webhook', 'callback', 1, 0, '[]', '[]', {moment}, {moment}, -1)"
            )
            with pytest.raises((sqlite3.IntegrityError, asyncpg.CheckViolationError)):
                await store.write(lambda session, sql=sql: session.query(sql, []))  # type: ignore[misc]
    finally:
        await store.close()
