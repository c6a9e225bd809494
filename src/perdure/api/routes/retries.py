"""Seeing retries: which there are, how they fare, and what a policy would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw
from starlette.requests import Request
from starlette.responses import Response

from perdure.api.answers import answer
from perdure.api.endpoints import INVALID, PAGE, PAGE_SIZE, TIME, TOO_LARGE, Answer, Endpoint, Parameter
from perdure.api.queries import Query
from perdure.api.requests import decode, read_body
from perdure.api.retry_shapes import PolicyGiven, PolicyPreview, RetrySchedule, RetryStats, StrategyStats
from perdure.api.services import Services
from perdure.api.shapes import ErrorEntry
from perdure.api.views import NULL
from perdure.store.changes import Row
from perdure.store.retries import RETRY_STATUSES, RetryCounts, RetryFilter, count_retries, list_retries

SUBJECT = "Retries"
_decode_errors = msgspec.json.Decoder(list[ErrorEntry]).decode
_COLUMNS = RetrySchedule.__struct_fields__


async def show_retries(request: Request, services: Services) -> Response:
    query = Query(request)
    wanted = RetryFilter(
        statuses=query.choices("status", RETRY_STATUSES),
        due_before=query.moment("due_before"),
        kind=query.text("kind"),
    )
    page = query.page()
    query.check()
    rows = await services.store.read(lambda session: list_retries(session, wanted, page))
    return answer([_schedule(row) for row in rows])


def _schedule(row: Row) -> RetrySchedule:
    columns = {name: row[name] for name in _COLUMNS}
    schedule = row["custom_schedule"]
    columns["custom_schedule"] = NULL if schedule is None else Raw(schedule)
    columns["retry_context"] = Raw(row["retry_context"])
    columns["error_history"] = _decode_errors(row["error_history"])
    return RetrySchedule(**columns)


async def show_retry_stats(_request: Request, services: Services) -> Response:
    by_strategy = await services.store.read(count_retries)
    total = RetryCounts()
    for counts in by_strategy.values():
        total.add(counts)
    shown = {name: StrategyStats(**_stats(counts)) for name, counts in by_strategy.items()}
    return answer(RetryStats(**_stats(total), by_strategy=shown))


def _stats(counts: RetryCounts) -> Mapping[str, Any]:
    return {name: getattr(counts, name) for name in StrategyStats.__struct_fields__}


async def preview_policy(request: Request, services: Services) -> Response:
    given = decode(await read_body(request, services.max_body_bytes), cast(type[PolicyGiven], PolicyGiven))
    return answer(services.commands.preview(given).to_json())


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/retries",
        handler=show_retries,
        subject=SUBJECT,
        summary="List tasks and batches that failed, by when they are tried again",
        description="Those that have a retry policy and failed at least once: the view `retry_schedules`.",
        parameters=(
            Parameter(
                "status",
                "Several times, or separated by commas, for any of them.",
                {"type": "array", "items": {"type": "string", "enum": list(RETRY_STATUSES)}},
            ),
            Parameter("due_before", "Scheduled before this time.", TIME),
            Parameter("kind", "Part of the kind of the task, or of one of the batch's tasks, to the letter."),
            PAGE,
            PAGE_SIZE,
        ),
        answers=(Answer(200, "The earliest first.", list[RetrySchedule]), INVALID),
    ),
    Endpoint(
        method="GET",
        path="/retries/stats",
        handler=show_retry_stats,
        subject=SUBJECT,
        summary="Show how retries fare",
        answers=(Answer(200, "All retries, and those of each strategy.", RetryStats),),
    ),
    Endpoint(
        method="POST",
        path="/retry/preview",
        handler=preview_policy,
        subject=SUBJECT,
        summary="Show what a retry policy would do",
        description="The body is the policy itself, or the name of one that is configured. Nothing is stored.",
        body=PolicyGiven,
        answers=(Answer(200, "When each retry would start.", PolicyPreview), INVALID, TOO_LARGE),
    ),
)
