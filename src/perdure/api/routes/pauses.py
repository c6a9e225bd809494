"""Pausing whole kinds and namespaces: nothing of them is started, on any instance, until they are resumed."""

from __future__ import annotations

from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from perdure.api.answers import answer
from perdure.api.endpoints import INVALID, Answer, Endpoint, Parameter, problem
from perdure.api.services import Handler, Services
from perdure.api.shapes import PauseEntry, PauseResult
from perdure.api.views import entries
from perdure.domain.checks import KIND_LENGTH, NAMESPACE_LENGTH, check_text
from perdure.domain.errors import Conflict, Invalid, Problem
from perdure.store.lookups import read_pauses

SUBJECT = "Pauses"
Scope = Literal["kind", "namespace"]
_LONGEST: dict[Scope, int] = {"kind": KIND_LENGTH, "namespace": NAMESPACE_LENGTH}


def _switch(scope: Scope, paused: bool) -> Handler:
    async def switch(request: Request, services: Services) -> Response:
        name: str = request.path_params["name"]
        problems: list[Problem] = []
        check_text(problems, scope, name, _LONGEST[scope])
        if problems:
            raise Invalid(problems)
        change = services.commands.pause_scope if paused else services.commands.resume_scope
        if not await change(scope, name):
            raise Conflict(f"The {scope} {name!r} {'is already paused' if paused else 'is not paused'}.")
        return answer(PauseResult(scope, name, paused))

    switch.__name__ = f"{'pause' if paused else 'resume'}_{scope}"
    return switch


async def show_pauses(_request: Request, services: Services) -> Response:
    return answer(entries(PauseEntry, await services.store.read(read_pauses)))


def _endpoint(scope: Scope, *, paused: bool) -> Endpoint:
    word = "pause" if paused else "resume"
    return Endpoint(
        method="PATCH",
        path=f"/{scope}/{word}/{{name:name}}",
        handler=_switch(scope, paused),
        subject=SUBJECT,
        summary=f"{word.title()} a {scope}",
        description=f"Tasks of the {scope} are not started while it is paused; those that run go on.",
        parameters=(
            Parameter(
                "name",
                f"The {scope}.",
                {"type": "string", "minLength": 1, "maxLength": _LONGEST[scope]},
                "path",
            ),
        ),
        answers=(
            Answer(200, f"The {scope} is {word}d now.", PauseResult),
            INVALID,
            problem(409, f"The {scope} {'is already' if paused else 'is not'} paused."),
        ),
    )


ENDPOINTS = (
    _endpoint("kind", paused=True),
    _endpoint("kind", paused=False),
    _endpoint("namespace", paused=True),
    _endpoint("namespace", paused=False),
    Endpoint(
        method="GET",
        path="/pauses",
        handler=show_pauses,
        subject=SUBJECT,
        summary="List paused kinds and namespaces",
        answers=(Answer(200, "By scope and name.", list[PauseEntry]),),
    ),
)
