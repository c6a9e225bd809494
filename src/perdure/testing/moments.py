"""When the database has something to do next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from perdure.store.interface import Session

_MOMENTS = """
SELECT min(due_at) AS due_at FROM (
    SELECT min(run_at) AS due_at FROM task WHERE status = 'pending' AND delayed AND run_at > ?
    UNION ALL
    SELECT min(next_retry_at) FROM task WHERE status = 'retry_pending' AND NOT paused AND next_retry_at > ?
    UNION ALL
    SELECT min(times_out_at) FROM task WHERE times_out_at > ?
    UNION ALL
    SELECT min(lease_until) FROM task WHERE lease_until > ? {alive}
    UNION ALL
    SELECT min(next_send_at) FROM webhook_execution WHERE next_send_at > ?
    UNION ALL
    SELECT min(next_retry_at) FROM batch WHERE next_retry_at > ?
) AS moments
"""


async def next_moment(session: Session, alive: Sequence[str]) -> datetime | None:
    """The earliest moment after the present at which something falls due.

    Leases of the workers in `alive` are left out: those renew them in time.
    """
    now = session.now
    marks = f"AND locked_by NOT IN ({', '.join('?' for _ in alive)})" if alive else ""
    parameters = [now, now, now, now, *alive, now, now]
    moment: datetime | None = (await session.query(_MOMENTS.format(alive=marks), parameters))[0]["due_at"]
    return moment
