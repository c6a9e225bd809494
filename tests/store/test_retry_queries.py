"""Queries that people have for a table of retries run on the view `retry_schedules` as they are."""

from __future__ import annotations

from perdure.domain.model import ErrorClass
from perdure.store.interface import StoreOptions
from perdure.store.postgres.store import connect
from perdure.testing import VirtualClock
from tests.store.databases import PostgresDatabase
from tests.store.drafts import a_task, broken, fixed_retry
from tests.store.retry_rows import COLUMNS
from tests.store.scenario import Scenario

FINAL = broken("bad input", ErrorClass.FINAL)

PENDING = """
SELECT * FROM retry_schedules 
WHERE status = 'scheduled' 
ORDER BY scheduled_at;
"""  # noqa: W291 - to the letter
NEXT_24_HOURS = """
SELECT * FROM retry_schedules 
WHERE status = 'scheduled' 
  AND scheduled_at <= NOW() + INTERVAL '24 hours'
ORDER BY scheduled_at;
"""  # noqa: W291 - to the letter
FAILED = """
SELECT * FROM retry_schedules 
WHERE status = 'failed'
ORDER BY updated_at DESC;
"""  # noqa: W291 - to the letter
SUCCESS_RATE = """
SELECT 
  COUNT(*) FILTER (WHERE status = 'completed') as successful,
  COUNT(*) FILTER (WHERE status = 'failed') as failed,
  COUNT(*) as total,
  ROUND(100.0 * COUNT(*) FILTER (WHERE status = 'completed') / COUNT(*), 2) as success_rate
FROM retry_schedules;
"""  # noqa: W291 - to the letter


async def test_well_known_queries_run_on_postgres(postgres_database: PostgresDatabase) -> None:
    connection = await connect(postgres_database.url)
    # The view compares with NOW(), so this test lives in the present.
    clock = VirtualClock(await connection.fetchval("SELECT now()"))
    scenario = Scenario(postgres_database, clock, StoreOptions("here"))
    await scenario.open()
    await scenario.submit(
        *[a_task(key, retry=fixed_retry(3600)) for key in ("in an hour", "failed first", "failed last", "completed")],
        a_task("in a week", retry={"strategy": "custom", "max_retries": 1, "schedule": ["7d"]}),
    )
    await scenario.run("failed first")
    await scenario.fail("failed first", failure=FINAL)
    clock.advance(1)
    await scenario.run("failed last", "in an hour", "in a week", "completed")
    await scenario.fail("failed last", failure=FINAL)
    await scenario.fail("in an hour", "in a week", "completed")
    await scenario.retry("completed")
    await scenario.run("completed")
    await scenario.succeed("completed")

    async def keys(query: str) -> list[str]:
        rows = await connection.fetch(query)
        assert all(list(row.keys()) == COLUMNS for row in rows)
        return [row["node_id"] for row in rows]

    assert await keys(PENDING) == ["in an hour", "in a week"]
    assert await keys(NEXT_24_HOURS) == ["in an hour"]
    assert await keys(FAILED) == ["failed last", "failed first"]
    (rate,) = await connection.fetch(SUCCESS_RATE)
    assert dict(rate) == {"successful": 1, "failed": 2, "total": 5, "success_rate": rate["success_rate"]}
    assert float(rate["success_rate"]) == 20
    await connection.close()
    await scenario.close()
