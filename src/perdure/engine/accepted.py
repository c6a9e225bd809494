"""What an answer that accepts an on_start call brings with it: a result, or how to cancel."""

from __future__ import annotations

import codecs
import json
import logging

import msgspec

from perdure.domain.checks import PAYLOAD_BYTES
from perdure.domain.drafts import ActionDraft
from perdure.domain.errors import Problem
from perdure.engine.calls import log_fields
from perdure.engine.intake import check_webhook, encode_json
from perdure.webhooks.egress import Egress
from perdure.webhooks.request import WebhookAnswer, WebhookRequest

log = logging.getLogger("perdure.engine")

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


def result_of(answer: WebhookAnswer, request: WebhookRequest) -> str | None:
    """The JSON body of an answer as it is stored; None if there is none, or none that can be kept."""
    body = answer.body.removeprefix(codecs.BOM_UTF8)
    if not body:
        return None
    try:
        return _kept(body, answer.truncated)
    except _UNREADABLE as error:
        # Nobody misses what nobody has announced.
        said_json = "json" in answer.headers.get("content-type", "").lower()
        log.log(
            logging.WARNING if said_json else logging.DEBUG,
            "the body of the answer is not kept as a result; the task succeeds without one",
            extra=log_fields(request, error=str(error)),
        )
        return None


def _kept(body: bytes, truncated: bool) -> str | None:
    if truncated:
        raise ValueError("the body is longer than what is read of an answer")
    problems: list[Problem] = []
    text = encode_json(problems, "result", msgspec.json.decode(body), PAYLOAD_BYTES)
    if problems:
        raise ValueError(str(problems[0]))
    return text


def cancel_params(answer: WebhookAnswer, request: WebhookRequest, egress: Egress) -> str | None:
    """How the receiver wants to be told of a cancel, if its answer says so and it is a webhook that may be called."""
    if b'"kind"' not in answer.body or b'"params"' not in answer.body:
        return None
    problems: list[Problem] = []
    try:
        draft = msgspec.json.decode(answer.body.removeprefix(codecs.BOM_UTF8), type=ActionDraft)
    except _UNREADABLE as error:
        problems.append(Problem("", str(error)))
    else:
        params = check_webhook(problems, "action", draft, egress)
        if not problems:
            return json.dumps(params)
    reasons = "; ".join(str(problem) for problem in problems)
    log.warning("the cancel action in the answer was dropped", extra=log_fields(request, error=reasons))
    return None
