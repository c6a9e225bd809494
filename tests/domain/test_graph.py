"""Dependencies form a DAG: a cycle is found, however the tasks are ordered, and named."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.clock import monotonic
from perdure.domain.graph import find_cycle

MANY = 100_000
#: Loosely: it takes a fraction of this.
LONGEST_SECS = 5.0


def _is_cycle(cycle: list[int], parents: list[list[int]]) -> bool:
    """Whether each task of `cycle` depends on the next, and the last is the first."""
    return (
        len(cycle) >= 2
        and cycle[0] == cycle[-1]
        and len(set(cycle[:-1])) == len(cycle) - 1
        and all(after in parents[before] for before, after in pairwise(cycle))
    )


@pytest.mark.parametrize(
    "parents",
    [
        [],
        [[]],
        [[], [0], [1]],
        [[1], [2], []],
        [[], [0], [0], [1, 2]],
        [[3], [3], [0, 1], []],
        [[], [], []],
    ],
    ids=["nothing", "one", "chain", "chain backwards", "diamond", "any order", "apart"],
)
def test_a_dag_has_no_cycle(parents: list[list[int]]) -> None:
    assert find_cycle(parents) is None


@pytest.mark.parametrize(
    ("parents", "members"),
    [
        ([[0]], {0}),
        ([[1], [0]], {0, 1}),
        ([[2], [0], [1]], {0, 1, 2}),
        ([[], [0, 3], [1], [2], [3]], {1, 2, 3}),
        ([[1], [2], [3], [2]], {2, 3}),
    ],
    ids=["itself", "two", "three", "with others before and behind", "behind a chain"],
)
def test_a_cycle_is_named(parents: list[list[int]], members: set[int]) -> None:
    cycle = find_cycle(parents)

    assert cycle is not None
    assert _is_cycle(cycle, parents)
    assert set(cycle) == members


@st.composite
def dags(draw: st.DrawFn, most: int = 30) -> list[list[int]]:
    """Dependencies that go from later to earlier tasks only, the tasks in any order."""
    size = draw(st.integers(1, most))
    order = draw(st.permutations(range(size)))
    parents: list[list[int]] = [[] for _ in range(size)]
    for rank in range(1, size):
        chosen = draw(st.sets(st.integers(0, rank - 1), max_size=4))
        parents[order[rank]] = [order[earlier] for earlier in sorted(chosen)]
    return parents


@given(dags())
def test_no_dag_has_a_cycle(parents: list[list[int]]) -> None:
    assert find_cycle(parents) is None


@given(dags(), st.data())
def test_a_dependency_on_a_descendant_makes_a_cycle_that_is_real(parents: list[list[int]], data: st.DataObject) -> None:
    start: int = data.draw(st.integers(0, len(parents) - 1))
    # Walk up from any task; whoever is met there gets the task as a parent.
    ancestor = start
    while parents[ancestor] and bool(data.draw(st.booleans())):
        ancestor = data.draw(st.sampled_from(parents[ancestor]))
    parents[ancestor] = [*parents[ancestor], start]

    cycle = find_cycle(parents)

    assert cycle is not None
    assert _is_cycle(cycle, parents)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_long_chain_in_either_order(backwards: bool) -> None:
    chain = [[position - 1] if position else [] for position in range(MANY)]
    if backwards:
        chain = [[MANY - 1 - parent for parent in needed] for needed in reversed(chain)]
    began = monotonic()

    assert find_cycle(chain) is None

    assert monotonic() - began < LONGEST_SECS


def test_a_cycle_through_everything() -> None:
    ring = [[(position + 1) % MANY] for position in range(MANY)]
    began = monotonic()

    cycle = find_cycle(ring)

    assert cycle is not None
    assert len(cycle) == MANY + 1
    assert monotonic() - began < LONGEST_SECS


def test_a_wide_fan_in() -> None:
    assert find_cycle([*[[] for _ in range(MANY)], list(range(MANY))]) is None
