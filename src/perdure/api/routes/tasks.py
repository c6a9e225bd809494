"""One task: what it is, what happened to it, and what is done to it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from perdure.api.answers import answer
from perdure.api.endpoints import CONFLICT, ID, INVALID, NO_TASK, TOO_LARGE, Answer, Endpoint, Parameter
from perdure.api.queries import Query
from perdure.api.requests import decode, path_id, read_body
from perdure.api.services import Services
from perdure.api.shapes import AttemptEntry, DeliveryEntry, EventEntry, FullTask
from perdure.api.views import entries, event_entry, full_task
from perdure.domain.checks import check_count
from perdure.domain.drafts import CountDraft, ReportDraft, RevisionDraft
from perdure.domain.errors import Invalid, Problem
from perdure.domain.model import Task
from perdure.store.lookups import (
    find_task,
    may_have_failed,
    read_attempts,
    read_deliveries,
    read_events,
    read_failures,
)

SUBJECT = "One task"


async def show_task(request: Request, services: Services) -> Response:
    id = path_id(request)
    found = await services.store.read(lambda session: find_task(session, id))
    return answer(full_task(found.task, found.failures))


async def report_task(request: Request, services: Services) -> Response:
    id = path_id(request)
    draft = decode(await read_body(request, services.max_body_bytes), ReportDraft)
    if request.scope["query_string"]:
        _take_attempt_from_query(request, draft)
    return await _changed(services, await services.commands.report(id, draft))


def _take_attempt_from_query(request: Request, draft: ReportDraft) -> None:
    """A handle names its attempt in the query; a body may name it too, and both count."""
    query = Query(request)
    named = set(query.numbers("attempt"))
    query.check()
    if draft.attempt is not None:
        named.add(draft.attempt)
    if len(named) > 1:
        raise Invalid([Problem("attempt", "query and body name different attempts")])
    draft.attempt = named.pop() if named else None


async def count_progress(request: Request, services: Services) -> Response:
    id = path_id(request)
    draft = decode(await read_body(request, services.max_body_bytes), CountDraft)
    problems = check_count(draft)
    if problems:
        raise Invalid(problems)
    await services.commands.count(id, draft.new_success or 0, draft.new_failures or 0)
    return Response(status_code=202)


async def cancel_task(request: Request, services: Services) -> Response:
    return await _changed(services, await services.commands.cancel(path_id(request)))


async def pause_task(request: Request, services: Services) -> Response:
    return await _changed(services, await services.commands.pause(path_id(request)))


async def resume_task(request: Request, services: Services) -> Response:
    return await _changed(services, await services.commands.resume(path_id(request)))


async def retry_task(request: Request, services: Services) -> Response:
    id = path_id(request)
    body = await read_body(request, services.max_body_bytes)
    revision = None if body.strip() in (b"", b"null") else decode(body, RevisionDraft)
    return await _changed(services, await services.commands.retry(id, revision))


async def _changed(services: Services, task: Task) -> Response:
    """The task after a change; its failed attempts are only looked for where there can be any."""
    if not may_have_failed(task):
        return answer(full_task(task))
    return answer(full_task(task, await services.store.read(lambda session: read_failures(session, task.id))))


async def show_attempts(request: Request, services: Services) -> Response:
    id = path_id(request)
    rows = await services.store.read(lambda session: read_attempts(session, id))
    return answer(entries(AttemptEntry, rows))


async def show_deliveries(request: Request, services: Services) -> Response:
    id = path_id(request)
    rows = await services.store.read(lambda session: read_deliveries(session, id))
    return answer(entries(DeliveryEntry, rows))


async def show_events(request: Request, services: Services) -> Response:
    id = path_id(request)
    rows = await services.store.read(lambda session: read_events(session, id))
    return answer([event_entry(row) for row in rows])


_TASK = Answer(200, "The task as it is now.", FullTask)

ENDPOINTS = (
    Endpoint(
        method="PATCH",
        path="/task/pause/{id}",
        handler=pause_task,
        subject=SUBJECT,
        summary="Pause a task",
        description="It keeps its state but is not started, and does not time out.",
        parameters=(ID,),
        answers=(_TASK, NO_TASK, CONFLICT),
    ),
    Endpoint(
        method="PATCH",
        path="/task/resume/{id}",
        handler=resume_task,
        subject=SUBJECT,
        summary="Resume a paused task",
        parameters=(ID,),
        answers=(_TASK, NO_TASK, CONFLICT),
    ),
    Endpoint(
        method="GET",
        path="/task/{id}",
        handler=show_task,
        subject=SUBJECT,
        summary="Show a task",
        parameters=(ID,),
        answers=(_TASK, NO_TASK),
    ),
    Endpoint(
        method="PATCH",
        path="/task/{id}",
        handler=report_task,
        subject=SUBJECT,
        summary="Report about a task",
        description="Progress, other metadata (merged as RFC 7396 says), or its end: `Success`, or `Failure` with a "
        "`failure_reason`.",
        parameters=(
            ID,
            Parameter(
                "attempt",
                "The attempt that the report is about; refused if it is over. Part of every handle.",
                {"type": "integer", "minimum": 0},
            ),
        ),
        body=ReportDraft,
        answers=(_TASK, INVALID, NO_TASK, CONFLICT, TOO_LARGE),
    ),
    Endpoint(
        method="PUT",
        path="/task/{id}",
        handler=count_progress,
        subject=SUBJECT,
        summary="Count progress",
        description="Cheap enough for every single item: counts are gathered and written a few times a second.",
        parameters=(ID,),
        body=CountDraft,
        answers=(Answer(202, "Will be written within moments."), INVALID, NO_TASK, TOO_LARGE),
    ),
    Endpoint(
        method="DELETE",
        path="/task/{id}",
        handler=cancel_task,
        subject=SUBJECT,
        summary="Cancel a task",
        parameters=(ID,),
        answers=(_TASK, NO_TASK, CONFLICT),
    ),
    Endpoint(
        method="POST",
        path="/task/{id}/retry",
        handler=retry_task,
        subject=SUBJECT,
        summary="Retry a task now",
        description="A task that waits for its retry waits no longer. One that failed, was canceled or is parked "
        "starts anew with a fresh budget, and what ended only because of it is put back. A body changes it first.",
        parameters=(ID,),
        body=RevisionDraft,
        body_required=False,
        answers=(_TASK, INVALID, NO_TASK, CONFLICT, TOO_LARGE),
    ),
    Endpoint(
        method="GET",
        path="/task/{id}/attempts",
        handler=show_attempts,
        subject=SUBJECT,
        summary="List a task's attempts that are over",
        parameters=(ID,),
        answers=(Answer(200, "Oldest first.", list[AttemptEntry]), NO_TASK),
    ),
    Endpoint(
        method="GET",
        path="/task/{id}/deliveries",
        handler=show_deliveries,
        subject=SUBJECT,
        summary="List a task's webhooks and how they went",
        parameters=(ID,),
        answers=(Answer(200, "Oldest first.", list[DeliveryEntry]), NO_TASK),
    ),
    Endpoint(
        method="GET",
        path="/task/{id}/events",
        handler=show_events,
        subject=SUBJECT,
        summary="List the changes of a task's status",
        parameters=(ID,),
        answers=(Answer(200, "Oldest first.", list[EventEntry]), NO_TASK),
    ),
)
