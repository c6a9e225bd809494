"""Listings walk an index in the order in which they show things; no page costs a sort of the whole table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from perdure.assemble import Instance
from perdure.store.interface import Session
from perdure.store.listings import BatchFilter, Page, TaskFilter, list_batches, list_tasks
from perdure.store.statements import Dialect
from tests.api.drafts import UNKNOWN

LISTINGS: list[tuple[Callable[[Any], Awaitable[Any]], str]] = [
    (lambda session: list_tasks(session, TaskFilter(), Page()), "task_pkey"),
    (lambda session: list_tasks(session, TaskFilter(statuses=("pending", "paused"), kind="k"), Page()), "task_pkey"),
    (lambda session: list_tasks(session, TaskFilter(), Page(cursor=UNKNOWN)), "task_pkey"),
    (lambda session: list_tasks(session, TaskFilter(batch_id=UNKNOWN), Page(cursor=UNKNOWN)), "task_batch"),
    (lambda session: list_batches(session, BatchFilter(), Page()), "batch_created"),
    (lambda session: list_batches(session, BatchFilter(kind="k", statuses=("running",)), Page()), "batch_created"),
]


class Explaining:
    """Runs no listing but has it explained."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.dialect = session.dialect
        self.plan = ""

    async def query(self, sql: str, parameters: Sequence[Any]) -> list[Any]:
        if self.dialect is Dialect.POSTGRES:
            # An empty table is read as a whole; what counts is that the index would do.
            await self._session.query("SELECT set_config('enable_seqscan', 'off', true)", [])
            await self._session.query("SELECT set_config('enable_sort', 'off', true)", [])
            rows = await self._session.query(f"EXPLAIN {sql}", parameters)
            self.plan = "\n".join(row["QUERY PLAN"] for row in rows)
        else:
            rows = await self._session.query(f"EXPLAIN QUERY PLAN {sql}", parameters)
            self.plan = "\n".join(row["detail"] for row in rows)
        return []


@pytest.mark.parametrize(("listing", "index"), LISTINGS)
async def test_a_page_is_found_by_an_index(
    instance: Instance, listing: Callable[[Any], Awaitable[Any]], index: str
) -> None:
    async def explain(session: Session) -> str:
        explaining = Explaining(session)
        await listing(explaining)
        return explaining.plan

    plan = await instance.store.read(explain)

    assert index.replace("task_pkey", "sqlite_autoindex_task_1") in plan or index in plan
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan
