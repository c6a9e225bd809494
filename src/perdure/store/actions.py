"""The webhooks of a task, as they are stored with it."""

from __future__ import annotations

import msgspec

from perdure.domain.destinations import destination_of
from perdure.domain.keys import Trigger
from perdure.store.changes import Delivery, Row


class StoredAction(msgspec.Struct):
    kind: str
    trigger: str
    condition: str | None
    params: msgspec.Raw
    attempt: int | msgspec.UnsetType = msgspec.UNSET
    """The attempt that it belongs to, if its receiver named it; an action of the task belongs to every attempt."""


class _Target(msgspec.Struct):
    url: str


_decode = msgspec.json.Decoder(list[StoredAction]).decode
_decode_target = msgspec.json.Decoder(_Target).decode
_WANTED = {
    Trigger.START: ("Start", None),
    Trigger.SUCCESS: ("End", "Success"),
    Trigger.FAILURE: ("End", "Failure"),
    Trigger.CANCEL: ("Cancel", None),
}


def actions_for(actions: str, trigger: Trigger, attempt: int) -> list[str]:
    """The parameters, as JSON text, of every action that `trigger` sets off in an attempt."""
    name, condition = _WANTED[trigger]
    if f'"{name}"' not in actions:
        return []
    return [
        bytes(action.params).decode()
        for action in _decode(actions)
        if action.trigger == name and action.condition == condition and action.attempt in (msgspec.UNSET, attempt)
    ]


def deliveries_for(row: Row, trigger: Trigger, attempt: int) -> list[Delivery]:
    """What must be sent to whom because `trigger` happened to the task of this row."""
    return [
        Delivery(row["id"], trigger, attempt, index, params)
        for index, params in enumerate(actions_for(row["actions"], trigger, attempt))
    ]


def destination_of_action(params: str) -> str:
    """Whom an action calls, from its parameters as JSON text."""
    return destination_of(_decode_target(params).url)


def with_cancel_action(actions: str, params: str, attempt: int) -> str:
    """The actions with one to call when this attempt is canceled, instead of what its receiver named before."""
    lasting = [action for action in _decode(actions) if action.attempt is msgspec.UNSET]
    named = StoredAction("Webhook", "Cancel", None, msgspec.Raw(params), attempt)
    return msgspec.json.encode([*lasting, named]).decode()


def replace_start_action(actions: str, start: bytes) -> str:
    """The actions with another on_start, given as JSON."""
    others = [action for action in _decode(actions) if action.trigger != "Start"]
    return msgspec.json.encode([msgspec.Raw(start), *others]).decode()
