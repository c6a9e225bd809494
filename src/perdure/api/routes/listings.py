"""Finding tasks and batches, a page at a time."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from perdure.api.answers import answer
from perdure.api.endpoints import INVALID, PAGE, PAGE_SIZE, STATUS, TIME, UUID, Answer, Endpoint, Parameter
from perdure.api.queries import Query
from perdure.api.services import Services
from perdure.api.shapes import BatchSummary, ShortTask
from perdure.api.views import batch_summary, short_task
from perdure.domain.model import ErrorClass
from perdure.store.interface import Session
from perdure.store.listings import BatchFilter, Page, TaskFilter, list_batches, list_tasks
from perdure.store.lookups import summarize_batches

SUBJECT = "Listings"
ERROR_CLASSES = tuple(error_class.value for error_class in ErrorClass)


async def show_tasks(request: Request, services: Services) -> Response:
    query = Query(request)
    wanted = TaskFilter(
        statuses=query.statuses("status"),
        kind=query.text("kind"),
        name=query.text("name"),
        namespace=query.text("namespace"),
        batch_id=query.uuid("batch_id"),
        timeout=query.number("timeout"),
        metadata=query.metadata("metadata"),
        error_class=query.choice("error_class", ERROR_CLASSES),
        due_before=query.moment("due_before"),
    )
    page = replace(query.page(), cursor=query.uuid("cursor"))
    query.check()
    listed = await services.store.read(lambda session: list_tasks(session, wanted, page))
    headers = {} if listed.next_cursor is None else {"X-Next-Cursor": listed.next_cursor}
    return answer([short_task(row) for row in listed.rows], headers=headers)


async def show_batches(request: Request, services: Services) -> Response:
    query = Query(request)
    wanted = BatchFilter(
        statuses=query.statuses("status"),
        kind=query.text("kind"),
        name=query.text("name"),
        created_after=query.moment("created_after"),
        created_before=query.moment("created_before"),
    )
    page = query.page()
    query.check()
    return answer(await services.store.read(lambda session: _summarize(session, wanted, page)))


async def _summarize(session: Session, wanted: BatchFilter, page: Page) -> list[BatchSummary]:
    rows = await list_batches(session, wanted, page)
    totals = await summarize_batches(session, [row["id"] for row in rows])
    return [batch_summary(row, totals[row["id"]]) for row in rows]


_KIND = Parameter("kind", "Part of the kind, to the letter.")

ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/task",
        handler=show_tasks,
        subject=SUBJECT,
        summary="List tasks",
        parameters=(
            STATUS,
            _KIND,
            Parameter("name", "Part of the name, to the letter."),
            Parameter("namespace", "The whole namespace."),
            Parameter("batch_id", "The batch that they belong to.", UUID),
            Parameter("timeout", "The timeout in seconds.", {"type": "integer"}),
            Parameter("metadata", "A JSON object that the metadata must contain."),
            Parameter("error_class", "What the last failure was.", {"type": "string", "enum": list(ERROR_CLASSES)}),
            Parameter("due_before", "Waiting for a retry that is due before this time.", TIME),
            PAGE,
            PAGE_SIZE,
            Parameter("cursor", "The `X-Next-Cursor` of the page before; `page` is ignored then.", UUID),
        ),
        answers=(
            Answer(
                200,
                "Newest first.",
                list[ShortTask],
                headers={"X-Next-Cursor": "Where the next page begins; absent on the last one."},
            ),
            INVALID,
        ),
    ),
    Endpoint(
        method="GET",
        path="/batches",
        handler=show_batches,
        subject=SUBJECT,
        summary="List batches",
        parameters=(
            _KIND,
            Parameter("name", "Part of the name of the batch or of one of its tasks, to the letter."),
            STATUS,
            Parameter("created_after", "Created at this time or later.", TIME),
            Parameter("created_before", "Created before this time.", TIME),
            PAGE,
            PAGE_SIZE,
        ),
        answers=(Answer(200, "Newest first.", list[BatchSummary]), INVALID),
    ),
)
