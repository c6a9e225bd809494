"""Idempotency keys: the same event has the same key, another event another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.keys import Trigger, idempotency_key

ID = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.mark.parametrize(
    ("trigger", "attempt", "index", "key"),
    [
        (Trigger.START, 0, 0, f"{ID}:start:0"),
        (Trigger.SUCCESS, 3, 0, f"{ID}:success:3"),
        (Trigger.FAILURE, 0, 1, f"{ID}:failure:0:1"),
        (Trigger.CANCEL, 12, 2, f"{ID}:cancel:12:2"),
    ],
)
def test_a_key_names_task_trigger_attempt_and_further_actions(
    trigger: Trigger, attempt: int, index: int, key: str
) -> None:
    assert idempotency_key(ID, trigger, attempt, index) == key


events = st.tuples(st.uuids().map(str), st.sampled_from(Trigger), st.integers(0, 10**6), st.integers(0, 30))


@given(events, events)
def test_keys_are_equal_for_equal_events_only(
    one: tuple[str, Trigger, int, int], other: tuple[str, Trigger, int, int]
) -> None:
    assert (idempotency_key(*one) == idempotency_key(*other)) == (one == other)


@given(events)
def test_all_keys_of_a_task_lie_between_its_colon_and_its_semicolon(event: tuple[str, Trigger, int, int]) -> None:
    """How the ledger of one task is found by an index of keys."""
    assert f"{event[0]}:" <= idempotency_key(*event) < f"{event[0]};"
