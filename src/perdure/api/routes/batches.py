"""One batch: its totals, stopping it, retrying it, other rules for its tasks."""

from __future__ import annotations

from collections import defaultdict

from starlette.requests import Request
from starlette.responses import Response

from perdure.api.answers import answer
from perdure.api.endpoints import ID, INVALID, NO_BATCH, TOO_LARGE, Answer, Endpoint
from perdure.api.requests import decode, path_id, read_body
from perdure.api.retry_shapes import BatchRetryResult
from perdure.api.services import Services
from perdure.api.shapes import BatchDetails, RulesResult, StopResult
from perdure.api.views import batch_details, stop_result
from perdure.domain.checks import KIND_LENGTH, check_text, parse_rules
from perdure.domain.drafts import RulesDraft
from perdure.domain.errors import Invalid, Problem
from perdure.store.lookups import find_batch

SUBJECT = "One batch"


async def show_batch(request: Request, services: Services) -> Response:
    id = path_id(request, "batch")
    row, totals = await services.store.read(lambda session: find_batch(session, id))
    return answer(batch_details(row, totals))


async def stop_batch(request: Request, services: Services) -> Response:
    return answer(stop_result(await services.commands.stop_batch(path_id(request, "batch"))))


async def retry_batch(request: Request, services: Services) -> Response:
    id = path_id(request, "batch")
    return answer(BatchRetryResult(id, await services.commands.retry_batch(id)))


async def change_rules(request: Request, services: Services) -> Response:
    id = path_id(request, "batch")
    draft = decode(await read_body(request, services.max_body_bytes), RulesDraft)
    problems: list[Problem] = []
    check_text(problems, "kind", draft.kind, KIND_LENGTH)
    # Here only what the rules say themselves; each task's own metadata is checked when it is changed.
    parse_rules(problems, "rules", draft.rules, _EveryField(), 0)
    if problems:
        raise Invalid(problems)
    updated = await services.commands.change_rules(id, draft)
    return answer(RulesResult(id, draft.kind, updated))


class _EveryField(defaultdict[str, None]):
    """Metadata that has whatever field a rule asks for."""

    def __contains__(self, name: object) -> bool:
        return True


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/batch/{id}",
        handler=show_batch,
        subject=SUBJECT,
        summary="Show a batch and its totals",
        parameters=(ID,),
        answers=(Answer(200, "The batch.", BatchDetails), NO_BATCH),
    ),
    Endpoint(
        method="DELETE",
        path="/batch/{id}",
        handler=stop_batch,
        subject=SUBJECT,
        summary="Stop a batch",
        description="Cancels every task that has not ended; may be repeated.",
        parameters=(ID,),
        answers=(Answer(200, "What was canceled.", StopResult), NO_BATCH),
    ),
    Endpoint(
        method="POST",
        path="/batch/{id}/retry",
        handler=retry_batch,
        subject=SUBJECT,
        summary="Retry everything that failed in a batch",
        description="In place: each failed or parked task starts anew with a fresh budget, and what ended only because "
        "of them is put back.",
        parameters=(ID,),
        answers=(Answer(200, "How many tasks live again.", BatchRetryResult), NO_BATCH),
    ),
    Endpoint(
        method="PATCH",
        path="/batch/{id}/rules",
        handler=change_rules,
        subject=SUBJECT,
        summary="Replace the rules of a batch's tasks of one kind",
        description="Concerns tasks that have not ended; if one of them cannot have the rules, nothing changes.",
        parameters=(ID,),
        body=RulesDraft,
        answers=(Answer(200, "How many tasks were changed.", RulesResult), INVALID, NO_BATCH, TOO_LARGE),
    ),
)
