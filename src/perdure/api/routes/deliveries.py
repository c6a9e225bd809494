"""Webhooks that were given up: sending them again."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from perdure.api.answers import answer
from perdure.api.endpoints import ID, Answer, Endpoint, problem
from perdure.api.requests import path_id
from perdure.api.services import Services
from perdure.api.shapes import DeliveryEntry
from perdure.api.views import entries


async def retry_delivery(request: Request, services: Services) -> Response:
    row = await services.commands.redrive(path_id(request, "delivery"))
    (entry,) = entries(DeliveryEntry, [row])
    return answer(entry)


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/deliveries/{id}/retry",
        handler=retry_delivery,
        subject="One delivery",
        summary="Send an end or cancel webhook again",
        description="It is due at once, with the same key. If its schedule has run out, it is tried once.",
        parameters=(ID,),
        answers=(
            Answer(200, "The delivery, due now.", DeliveryEntry),
            problem(404, "There is no such delivery."),
            problem(409, "It was accepted already, is being sent, or belongs to `on_start`."),
        ),
    ),
)
