"""The yardstick: a bare asyncpg loop that claims 100 rows and finishes 100 rows, one transaction each round."""

from __future__ import annotations

import time

import asyncpg
from uuid_utils import uuid7

GROUP = 100
_SCHEMA = """
CREATE TABLE bare_job (
    id uuid PRIMARY KEY, status smallint NOT NULL DEFAULT 0, priority int NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(), payload jsonb NOT NULL, owner text, lease timestamptz, result jsonb
);
CREATE INDEX bare_job_pending ON bare_job (priority DESC, created_at) WHERE status = 0;
"""
_CLAIM = """
WITH next AS (
    SELECT id FROM bare_job WHERE status = 0 ORDER BY priority DESC, created_at LIMIT 100 FOR UPDATE SKIP LOCKED
)
UPDATE bare_job SET status = 1, owner = 'me', lease = now() + interval '1 minute'
FROM next WHERE bare_job.id = next.id RETURNING bare_job.id, payload
"""
_FINISH = (
    "UPDATE bare_job SET status = status + 1, result = '{}' FROM unnest($1::uuid[]) AS x(id) WHERE bare_job.id = x.id"
)


async def measure_bare_loop(url: str, tasks: int) -> float:
    """Jobs claimed and finished per second."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("DROP TABLE IF EXISTS bare_job")
        await connection.execute(_SCHEMA)
        payload = '{"order": 7, "note": "' + "x" * 150 + '"}'
        await connection.copy_records_to_table(
            "bare_job", records=[(str(uuid7()), payload) for _ in range(tasks)], columns=["id", "payload"]
        )
        await connection.execute("ANALYZE bare_job")
        done = 0
        claimed: list[object] = []
        began = time.perf_counter()
        while done < tasks:
            async with connection.transaction():
                if claimed:
                    await connection.execute(_FINISH, claimed)
                    done += len(claimed)
                claimed = [row["id"] for row in await connection.fetch(_CLAIM)]
        return tasks / (time.perf_counter() - began)
    finally:
        await connection.close()
