"""A batch as a graph."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from perdure.api.answers import answer
from perdure.api.endpoints import ID, Answer, Endpoint, problem
from perdure.api.requests import path_id
from perdure.api.services import Services
from perdure.api.shapes import DagView
from perdure.api.views import dag_view
from perdure.store.lookups import read_dag

AT_ONCE = 1_000
"""Beyond this many tasks the answer is written beside the event loop, so that others need not wait for it."""


async def show_dag(request: Request, services: Services) -> Response:
    id = path_id(request, "batch")
    dag = await services.store.read(lambda session: read_dag(session, id))
    if len(dag.tasks) + len(dag.links) > AT_ONCE:
        return await asyncio.to_thread(lambda: answer(dag_view(dag)))
    return answer(dag_view(dag))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/dag/{id}",
        handler=show_dag,
        subject="One batch",
        summary="Show the graph of a batch",
        description="Tasks in the order in which they were submitted; both arrays are empty if there is no such batch.",
        parameters=(ID,),
        answers=(Answer(200, "Tasks and links.", DagView), problem(404, "The id is no UUID.")),
    ),
)
