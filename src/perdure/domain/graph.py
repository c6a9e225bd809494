"""The check that a batch's dependencies form a DAG."""

from __future__ import annotations

from collections.abc import Sequence


def find_cycle(parents: Sequence[Sequence[int]]) -> list[int] | None:
    """One cycle as `[a, b, …, a]`, each depending on the next, or None if there is none.

    `parents[n]` lists the positions that task n depends on. Iterative and linear: 100,000 tasks in any order.
    """
    unmet = [len(needed) for needed in parents]
    children: list[list[int]] = [[] for _ in parents]
    for child, needed in enumerate(parents):
        for parent in needed:
            children[parent].append(child)
    ready = [task for task, count in enumerate(unmet) if count == 0]
    for task in ready:
        for child in children[task]:
            unmet[child] -= 1
            if unmet[child] == 0:
                ready.append(child)
    if len(ready) == len(parents):
        return None
    return _walk_cycle(parents, unmet)


def _walk_cycle(parents: Sequence[Sequence[int]], unmet: Sequence[int]) -> list[int]:
    """Follow unmet dependencies from any stuck task until one comes round again."""
    task = next(position for position, count in enumerate(unmet) if count)
    seen: dict[int, int] = {}
    path: list[int] = []
    while task not in seen:
        seen[task] = len(path)
        path.append(task)
        task = next(parent for parent in parents[task] if unmet[parent])
    return [*path[seen[task] :], task]
