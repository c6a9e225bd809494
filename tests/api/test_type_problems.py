"""The slow search for mistyped members finds something exactly where the fast decoder refuses."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.api.type_problems import find_type_problems
from perdure.domain.drafts import BatchDraft, CountDraft, ReportDraft, RulesDraft, TaskDraft

SHAPES: list[Any] = [BatchDraft, list[TaskDraft], ReportDraft, CountDraft, RulesDraft]
NAMES = [
    "id", "name", "kind", "tasks", "timeout", "metadata", "params", "url", "headers", "on_start", "on_success",
    "matcher", "fields", "rules", "dependencies", "delay", "retry", "status", "new_success", "requires_success",
    "body", "zzz",
]  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.sampled_from(["", "a", "Success"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=30,
)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@given(value=values)
def test_both_ways_of_decoding_agree(shape: Any, value: Any) -> None:
    try:
        msgspec.json.decode(json.dumps(value), type=shape)
    except msgspec.ValidationError:
        refused = True
    else:
        refused = False

    assert bool(find_type_problems(value, shape)) == refused
