"""The OpenAPI document, built from the table of endpoints and the shapes of requests and answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from perdure import __version__
from perdure.api.endpoints import FAILED, UNAVAILABLE, Answer, Endpoint, Parameter
from perdure.domain.checks import (
    DEPENDENCIES_PER_TASK,
    KEY_LENGTH,
    KIND_LENGTH,
    LARGEST_COUNT,
    NAME_LENGTH,
    NAMESPACE_LENGTH,
    PRIORITY_RANGE,
    TASKS_PER_BATCH,
    TIMEOUT_RANGE,
)
from perdure.domain.model import Completion, Condition, ErrorClass

REFERENCE = "#/components/schemas/{name}"
_CONVERTOR = re.compile(r":\w+}")
_COUNT = {"minimum": 0, "maximum": LARGEST_COUNT}
_PRIORITY = {"minimum": PRIORITY_RANGE[0], "maximum": PRIORITY_RANGE[1]}
_NAME = {"minLength": 1, "maxLength": NAME_LENGTH}
_KIND = {"minLength": 1, "maxLength": KIND_LENGTH}

#: What the types of the drafts do not say: the limits that the domain checks.
_LIMITS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "TaskDraft": {
        "id": {"minLength": 1, "maxLength": KEY_LENGTH, "description": "A name for wiring within the batch."},
        "name": _NAME,
        "kind": _KIND,
        "timeout": {
            "minimum": TIMEOUT_RANGE[0],
            "maximum": TIMEOUT_RANGE[1],
            "description": "Seconds without a sign of life after which it has failed; 60 if absent.",
        },
        "completion": {"enum": [*(one.value for one in Completion), None]},
        "metadata": {"description": "At most 64 KiB."},
        "payload": {"description": "At most 256 KiB."},
        "dependencies": {"maxItems": DEPENDENCIES_PER_TASK},
        "expected_count": _COUNT,
        "priority": _PRIORITY,
        "retry": {"description": "A retry policy, or the name of one."},
        "run_at": {"format": "date-time", "description": "Not started before this time."},
        "delay": {"description": "Not started before so many seconds, or a duration such as `5m`, have passed."},
    },
    "BatchDraft": {
        "tasks": {"maxItems": TASKS_PER_BATCH},
        "name": _NAME,
        "namespace": {"minLength": 1, "maxLength": NAMESPACE_LENGTH},
    },
    "DependencyDraft": {"condition": {"enum": [*(one.value for one in Condition), None]}},
    "ReportDraft": {
        "status": {"enum": ["Success", "Failure", None]},
        "failure_reason": {"description": "Required when the status is `Failure`."},
        "error_class": {"enum": [*(one.value for one in ErrorClass), None]},
        "retry_after": {"description": "Seconds to wait before the next attempt."},
        "new_success": _COUNT,
        "new_failures": _COUNT,
        "expected_count": _COUNT,
        "priority": _PRIORITY,
        "attempt": _COUNT,
    },
    "RevisionDraft": {
        "timeout": {"minimum": TIMEOUT_RANGE[0], "maximum": TIMEOUT_RANGE[1]},
        "metadata": {"description": "Instead of what the task carries; at most 64 KiB."},
        "payload": {"description": "At most 256 KiB."},
        "retry": {"description": "A retry policy, or the name of one."},
    },
    "CountDraft": {"new_success": _COUNT, "new_failures": _COUNT},
    "RulesDraft": {"kind": _KIND},
}

_ABOUT = {
    "TaskDraft": "A task to be run, by a receiver (`on_start`) or by a worker.",
    "BatchDraft": "Tasks that belong together.",
    "ActionDraft": "Something to do when a task comes to a point; `kind` is `Webhook`.",
    "WebhookDraft": "An HTTP request to be sent.",
    "DependencyDraft": "What a task waits for: the success of another one, its end, or its failure.",
    "RuleDraft": "At most so many tasks, or so much work, at a time.",
    "MatcherDraft": "Tasks of a kind and status whose metadata has the same values in these fields.",
}


def build_document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The whole document, as plain JSON values."""
    table = list(endpoints)
    schemas, components = _schemas(table)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in table:
        path = _CONVERTOR.sub("}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "perdure",
            "version": __version__,
            "summary": "Runs tasks that outlive crashes, restarts and failing services.",
            "description": "Refusals are problem documents (RFC 9457). Null equals absent. Times are UTC.",
        },
        "tags": [{"name": subject} for subject in dict.fromkeys(endpoint.subject for endpoint in table)],
        "paths": paths,
        "components": {"schemas": components},
    }


def _schemas(table: list[Endpoint]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The schema of every body by the name of its type, and the components that they refer to."""
    shapes: dict[str, Any] = {}
    for endpoint in table:
        bodies = [endpoint.body, *(answer.shape for answer in _answers(endpoint))]
        shapes.update({str(shape): shape for shape in bodies if shape is not None})
    found, components = msgspec.json.schema_components(shapes.values(), ref_template=REFERENCE)
    for name, description in _ABOUT.items():
        components[name]["description"] = description
    for name, members in _LIMITS.items():
        for member, limits in members.items():
            components[name]["properties"][member].update(limits)
    return dict(zip(shapes, found, strict=True)), components


def _answers(endpoint: Endpoint) -> tuple[Answer, ...]:
    """The answers of an endpoint, and those that every one can give."""
    named = {answer.status for answer in endpoint.answers}
    return (*endpoint.answers, *(one for one in (FAILED, UNAVAILABLE) if one.status not in named))


def _operation(endpoint: Endpoint, schemas: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "tags": [endpoint.subject],
        "responses": {str(answer.status): _response(answer, schemas) for answer in _answers(endpoint)},
    }
    if endpoint.description:
        operation["description"] = endpoint.description
    if endpoint.parameters:
        operation["parameters"] = [_parameter(parameter) for parameter in endpoint.parameters]
    if endpoint.body is not None:
        content = {"application/json": {"schema": schemas[str(endpoint.body)]}}
        operation["requestBody"] = {"required": endpoint.body_required, "content": content}
    return operation


def _parameter(parameter: Parameter) -> dict[str, Any]:
    shown = {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.description,
        "schema": dict(parameter.schema),
    }
    return {**shown, "required": True} if parameter.place == "path" else shown


def _response(answer: Answer, schemas: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    response: dict[str, Any] = {"description": answer.description}
    if answer.headers:
        response["headers"] = {
            name: {"description": description, "schema": {"type": "string"}}
            for name, description in answer.headers.items()
        }
    if answer.shape is not None:
        response["content"] = {answer.content_type: {"schema": schemas[str(answer.shape)]}}
    return response
