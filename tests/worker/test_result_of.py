"""What a task hears of its parents' results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

import pytest

from perdure import Context, NoResult, Perdure, PerdureError

app = Perdure("sqlite:///never-opened.db")


@dataclass(frozen=True)
class Receipt:
    cents: int


@app.task
def charge(cents: int) -> Receipt:
    return Receipt(cents)


def a_parent(key: str, status: str = "success", result: str | None = None, kind: str = "charge") -> dict[str, Any]:
    return {"key": key, "kind": kind, "status": status, "result": result}


def a_child_of(*parents: dict[str, Any]) -> Context:
    return Context("task", "batch", "ship", "ship", 0, parents)


def test_a_result_is_read_as_what_the_function_returns() -> None:
    context = a_child_of(a_parent("charge", result='{"cents": 7}'))

    receipt: Receipt = assert_type(context.result_of(charge), Receipt)
    assert receipt == Receipt(7)


def test_a_result_by_key_is_plain_data() -> None:
    context = a_child_of(a_parent("first", result='{"cents": 7}'), a_parent("second", result="[1]"))

    assert context.result_of("first") == {"cents": 7}
    assert context.result_of("second") == [1]


def test_a_parent_that_returned_nothing_has_the_result_none() -> None:
    assert a_child_of(a_parent("charge")).result_of("charge") is None


@pytest.mark.parametrize(
    ("status", "shown"), [("failure", "Failure"), ("skipped", "Skipped"), ("canceled", "Canceled")]
)
def test_a_parent_that_did_not_succeed_has_no_result(status: str, shown: str) -> None:
    context = a_child_of(a_parent("charge", status))

    for parent in (charge, "charge"):
        with pytest.raises(NoResult, match=f"the parent 'charge' has no result: it is {shown}"):
            context.result_of(parent)


def test_a_parent_that_is_not_there_has_no_result() -> None:
    with pytest.raises(NoResult, match="the parents' keys are: 'reserve'"):
        a_child_of(a_parent("reserve", kind="reserve")).result_of(charge)


def test_of_several_parents_of_a_kind_one_must_be_named() -> None:
    context = a_child_of(a_parent("north", result='{"cents": 1}'), a_parent("south", result='{"cents": 2}'))

    with pytest.raises(NoResult, match="2 parents have the kind 'charge'"):
        context.result_of(charge)


def test_a_result_that_is_not_what_the_function_returns_now_is_told_as_such() -> None:
    context = a_child_of(a_parent("charge", result='{"euros": 7}'))

    with pytest.raises(NoResult, match=r"'charge' is not what the function returns now: .*missing .*cents") as told:
        context.result_of(charge)
    assert isinstance(told.value, PerdureError)
    assert context.result_of("charge") == {"euros": 7}
