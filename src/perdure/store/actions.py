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


def actions_for(actions: str, trigger: Trigger) -> list[str]:
    """The parameters, as JSON text, of every action that `trigger` sets off."""
    name, condition = _WANTED[trigger]
    if f'"{name}"' not in actions:
        return []
    return [
        bytes(action.params).decode()
        for action in _decode(actions)
        if action.trigger == name and action.condition == condition
    ]


def deliveries_for(row: Row, trigger: Trigger, attempt: int) -> list[Delivery]:
    """What must be sent to whom because `trigger` happened to the task of this row."""
    return [
        Delivery(row["id"], trigger, attempt, index, params)
        for index, params in enumerate(actions_for(row["actions"], trigger))
    ]


def destination_of_action(params: str) -> str:
    """Whom an action calls, from its parameters as JSON text."""
    return destination_of(_decode_target(params).url)


def with_cancel_action(actions: str, params: str) -> str:
    """The actions with one more to call when the task is canceled."""
    added = StoredAction("Webhook", "Cancel", None, msgspec.Raw(params))
    return msgspec.json.encode([*_decode(actions), added]).decode()


def replace_start_action(actions: str, start: bytes) -> str:
    """The actions with another on_start, given as JSON."""
    others = [action for action in _decode(actions) if action.trigger != "Start"]
    return msgspec.json.encode([msgspec.Raw(start), *others]).decode()
