"""Handing in work: a plain array of tasks, or a batch with a name and more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from perdure.api.answers import encode
from perdure.api.endpoints import INVALID, TOO_LARGE, Answer, Endpoint, Parameter, problem
from perdure.api.problems import answer_problem
from perdure.api.requests import decode_batch, decode_tasks, hash_request, idempotency_key, read_body
from perdure.api.services import Services
from perdure.api.shapes import CreatedBatch, FullTask
from perdure.api.views import full_task
from perdure.domain.drafts import BatchDraft, TaskDraft
from perdure.domain.errors import Invalid
from perdure.domain.model import Task
from perdure.store.verbs.submit import SubmissionKey

SUBJECT = "Submission"


@dataclass(slots=True)
class _Rendering:
    """Writes the answer of a submission, and keeps it: what is stored and what is sent are the same bytes."""

    render: Callable[[str, list[Task]], bytes]
    rendered: bytes = b""

    def __call__(self, batch_id: str, tasks: list[Task]) -> bytes:
        # Nothing created is an empty answer, by which a replay is known for a 204 too.
        self.rendered = self.render(batch_id, tasks) if tasks else b""
        return self.rendered


def _render_tasks(_batch_id: str, tasks: list[Task]) -> bytes:
    return encode([full_task(task) for task in tasks])


def _render_batch(batch_id: str, tasks: list[Task]) -> bytes:
    return encode(CreatedBatch(batch_id, [full_task(task) for task in tasks]))


async def submit_tasks(request: Request, services: Services) -> Response:
    return await _submit(request, services, decode_tasks, _Rendering(_render_tasks))


async def submit_batch(request: Request, services: Services) -> Response:
    return await _submit(request, services, decode_batch, _Rendering(_render_batch))


async def _submit(
    request: Request, services: Services, decode: Callable[[bytes], BatchDraft], rendering: _Rendering
) -> Response:
    try:
        name = idempotency_key(request)
        body = await read_body(request, services.max_body_bytes)
        draft = decode(body)
        key = None if name is None else SubmissionKey(name, hash_request(request, body), rendering)
        submitted = await services.commands.submit(draft, key)
    except Invalid as error:
        return answer_problem(error, request, services.new_id())
    if submitted.answer is not None:
        return _created(submitted.batch_id, submitted.answer, replayed=True)
    if key is None:
        rendering(submitted.batch_id, submitted.tasks)
    return _created(submitted.batch_id, rendering.rendered)


def _created(batch_id: str, body: bytes, *, replayed: bool = False) -> Response:
    headers = {"Idempotency-Replayed": "true"} if replayed else {}
    if not body:
        return Response(status_code=204, headers=headers)
    return Response(body, 201, {**headers, "X-Batch-ID": batch_id}, "application/json")


_KEY = Parameter(
    "Idempotency-Key",
    "1 to 255 visible characters. The same key and body gets the first answer again, for 24 hours.",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "header",
)
_HEADERS = {
    "X-Batch-ID": "The batch that the tasks belong to.",
    "Idempotency-Replayed": "`true` if this is the answer to an earlier request with the same key.",
}
_REFUSED = (
    INVALID,
    problem(409, "A request with this Idempotency-Key is being processed."),
    TOO_LARGE,
    problem(422, "The Idempotency-Key was used before with another body."),
)
_NOTHING = Answer(204, "Nothing was created: there were no tasks, or all exist already.")
_DESCRIPTION = (
    "All tasks are stored, or none. Dependencies may stand in any order. Members that are not known are ignored, "
    "except within `retry`."
)

ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/task",
        handler=submit_tasks,
        subject=SUBJECT,
        summary="Submit tasks",
        description=_DESCRIPTION,
        parameters=(_KEY,),
        body=list[TaskDraft],
        answers=(Answer(201, "The tasks that were created.", list[FullTask], headers=_HEADERS), _NOTHING, *_REFUSED),
    ),
    Endpoint(
        method="POST",
        path="/batch",
        handler=submit_batch,
        subject=SUBJECT,
        summary="Submit a batch",
        description=_DESCRIPTION,
        parameters=(_KEY,),
        body=BatchDraft,
        answers=(Answer(201, "The batch that was created.", CreatedBatch, headers=_HEADERS), _NOTHING, *_REFUSED),
    ),
)
