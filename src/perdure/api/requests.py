"""Reading what was sent: the body within its limit, decoded into the drafts of the domain."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from functools import cache
from hashlib import sha256
from typing import Any, TypeVar, cast

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

from perdure.api.type_problems import find_batch_problems, find_type_problems
from perdure.domain.drafts import BatchDraft, TaskDraft
from perdure.domain.errors import Invalid, NotFound, Problem

Draft = TypeVar("Draft")

LONGEST_KEY = 255
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_VISIBLE = re.compile(rf"[!-~]{{1,{LONGEST_KEY}}}")
_MESSAGE = re.compile(r"(?P<what>.*?) - at `\$(?P<where>.*)`", re.DOTALL)
#: What decoding raises for bytes that are no JSON, or none that can be kept.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, OverflowError)


def normalize_uuid(text: str) -> str | None:
    """`text` as ids are written here, None if it is no UUID."""
    lowered = text.lower()
    return lowered if _UUID.fullmatch(lowered) else None


def path_id(request: Request, thing: str = "task") -> str:
    """The id in the path; what is no UUID names nothing, so it raises NotFound."""
    given: str = request.path_params["id"]
    id = normalize_uuid(given)
    if id is None:
        raise NotFound(thing, given[:80])
    return id


def idempotency_key(request: Request) -> str | None:
    """The `Idempotency-Key` header, if there is one; raises Invalid."""
    given = request.headers.getlist("idempotency-key")
    if not given:
        return None
    if len(given) > 1 or not _VISIBLE.fullmatch(given[0]):
        message = f"must be given once, with 1 to {LONGEST_KEY} visible ASCII characters"
        raise Invalid([Problem("Idempotency-Key", message)])
    return given[0]


def hash_request(request: Request, body: bytes) -> str:
    """What makes two requests with the same key the same request."""
    return sha256(f"{request.method} {request.scope['path']}\n".encode() + body).hexdigest()


async def read_body(request: Request, limit: int) -> bytes:
    """The body; stops with 413 as soon as it is known to be longer than `limit` bytes."""
    declared = request.headers.get("content-length", "")
    if len(declared) > 18 or (declared.isdecimal() and int(declared) > limit):
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            # Nobody reads the answer, but there must be one.
            raise Invalid([Problem("body", "is incomplete; the connection was closed")])
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"The body is longer than {limit} bytes; split the request.")


@cache
def _decoder(shape: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cast(Any, shape))


def decode_tasks(body: bytes) -> BatchDraft:
    """The array of tasks of `POST /task`; raises Invalid with every problem of every task."""
    try:
        return BatchDraft(_decoder(list[TaskDraft]).decode(body))
    except _UNREADABLE as error:
        tasks = _decode_plainly(body, "tasks", error)
        problems = find_batch_problems({"tasks": tasks})
        raise Invalid(problems or [_unexpected(error, "tasks")]) from error


def decode_batch(body: bytes) -> BatchDraft:
    """The object of `POST /batch`; raises Invalid with every problem of every task."""
    try:
        draft: BatchDraft = _decoder(BatchDraft).decode(body)
        return draft
    except _UNREADABLE as error:
        problems = find_batch_problems(_decode_plainly(body, "", error))
        raise Invalid(problems or [_unexpected(error, "")]) from error


def decode(body: bytes, shape: type[Draft]) -> Draft:
    """An object of one of the smaller shapes; raises Invalid with every problem."""
    try:
        draft: Draft = _decoder(cast(Hashable, shape)).decode(body)
        return draft
    except _UNREADABLE as error:
        problems = find_type_problems(_decode_plainly(body, "", error), shape)
        raise Invalid(problems or [_unexpected(error, "")]) from error


def decode_json(text: str) -> Any:
    """Any JSON; raises ValueError with what is wrong with it."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except UnicodeError:
        raise ValueError("must not contain lone surrogates") from None
    except (ValueError, OverflowError) as error:
        raise ValueError(f"must be JSON: {error}"[:200]) from None


def _decode_plainly(body: bytes, root: str, first_error: Exception) -> Any:
    """What the body holds, whatever that is; raises Invalid if it is no JSON."""
    if not body.strip():
        raise Invalid([Problem("body", "is empty; send JSON")])
    try:
        return msgspec.json.decode(body)
    except RecursionError:
        raise Invalid([Problem("body", "is nested too deeply")]) from None
    except UnicodeDecodeError:
        raise Invalid([Problem("body", "must be UTF-8")]) from None
    except msgspec.ValidationError:
        raise Invalid([_unexpected(first_error, root)]) from None
    except (ValueError, OverflowError) as error:
        if _has_lone_surrogate(body):
            raise Invalid([Problem("body", "must not contain lone surrogates")]) from None
        raise Invalid([Problem("body", f"malformed JSON: {error}"[:200])]) from None


def _has_lone_surrogate(body: bytes) -> bool:
    """Whether it is valid JSON but for half a surrogate pair, which the standard library lets pass."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError):
        return False
    return b"\\u" in body


def _unexpected(error: Exception, root: str) -> Problem:
    """A problem that only the decoder saw, in our words for places."""
    match = _MESSAGE.fullmatch(str(error))
    if match is None:
        return Problem("body", str(error)[:200] or "cannot be read")
    where = f"{root}{match['where']}".lstrip(".")
    return Problem(where or "body", match["what"][:200])
