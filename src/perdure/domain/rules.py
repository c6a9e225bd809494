"""Who may start: concurrency and capacity rules, as plain arithmetic.

A *watch* says which active tasks are counted; its *key* is the values that their metadata must have; a *limit* is
a bound on that count. A *lane* is a set of pending tasks that are alike for every limit, so that one decision
serves them all and a blocked lane costs nothing, however many tasks wait in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from perdure.domain.destinations import NOWHERE


class Measure(StrEnum):
    """What a limit bounds: how many tasks, or how much work is left in them."""

    TASKS = "tasks"
    WORK = "work"


@dataclass(frozen=True, slots=True)
class Matcher:
    """Tasks of a kind, in a status, with the same metadata values as the task that carries it."""

    kind: str
    status: str
    fields: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "status": self.status, "fields": list(self.fields)}


@dataclass(frozen=True, slots=True)
class Rule:
    """At most `limit` of what `measure` counts among the tasks that `matcher` finds."""

    measure: Measure
    matcher: Matcher
    limit: int

    def to_json(self) -> dict[str, Any]:
        if self.measure is Measure.TASKS:
            return {"type": "Concurrency", "matcher": self.matcher.to_json(), "max_concurrency": self.limit}
        return {"type": "Capacity", "matcher": self.matcher.to_json(), "max_capacity": self.limit}

    @classmethod
    def from_json(cls, rule: Mapping[str, Any]) -> Rule:
        """A rule as `to_json` wrote it."""
        matcher = rule["matcher"]
        found = Matcher(matcher["kind"], matcher["status"], tuple(matcher["fields"]))
        if rule["type"] == "Concurrency":
            return cls(Measure.TASKS, found, rule["max_concurrency"])
        return cls(Measure.WORK, found, rule["max_capacity"])


@dataclass(frozen=True, slots=True)
class Watch:
    """Which active tasks a limit counts: of a kind, of a namespace, apart by the values of some metadata fields."""

    kind: str | None
    namespace: str | None
    fields: tuple[str, ...]

    def covers(self, kind: str, namespace: str) -> bool:
        return self.kind in (None, kind) and self.namespace in (None, namespace)


@dataclass(frozen=True, slots=True)
class Limit:
    watch: Watch
    key: str
    measure: Measure
    bound: int
    counts_itself: bool = True
    """Whether the task under the limit is counted by it once it runs; not so if it watches another kind."""


@dataclass(slots=True)
class Usage:
    """What the active tasks under one watch and key add up to."""

    tasks: int = 0
    work: int = 0

    def room(self, limit: Limit) -> int | None:
        """How many more tasks may start under `limit`; None if it sets no number yet."""
        used = self.tasks if limit.measure is Measure.TASKS else self.work
        if used >= limit.bound:
            return 0
        return limit.bound - used if limit.measure is Measure.TASKS and limit.counts_itself else None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pending task that could be claimed."""

    id: str
    lane: int
    kind: str
    namespace: str
    metadata: Mapping[str, Any]
    remaining: int
    limits: Sequence[Limit]


@dataclass(slots=True)
class Occupancy:
    """Usage under every watch that matters for one claim."""

    usage: dict[tuple[Watch, str], Usage] = field(default_factory=dict)

    def of(self, limit: Limit) -> Usage:
        return self.usage.setdefault((limit.watch, limit.key), Usage())

    def room(self, limits: Iterable[Limit], most: int) -> int:
        """How many tasks under all of `limits` may start now, at most `most`."""
        rooms = [self.of(limit).room(limit) for limit in limits]
        return min([most, *(room for room in rooms if room is not None)])

    def admit(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Those candidates, taken in order, that may all start together without a limit being exceeded."""
        admitted = []
        for candidate in candidates:
            if self.room(candidate.limits, 1) > 0:
                admitted.append(candidate)
                self._occupy(candidate)
        return admitted

    def _occupy(self, candidate: Candidate) -> None:
        for (watch, key), usage in self.usage.items():
            if watch.covers(candidate.kind, candidate.namespace) and key == values_key(
                candidate.metadata, watch.fields
            ):
                usage.tasks += 1
                usage.work += candidate.remaining


def limits_of(
    kind: str,
    namespace: str,
    rules: Iterable[Rule],
    metadata: Mapping[str, Any],
    kind_limits: Mapping[str, int],
    namespace_limits: Mapping[str, int],
) -> list[Limit]:
    """Every limit that a task must hold to start: its own rules, and the configured ones of kind and namespace."""
    limits = [
        Limit(
            Watch(rule.matcher.kind, None, rule.matcher.fields),
            values_key(metadata, rule.matcher.fields),
            rule.measure,
            rule.limit,
            counts_itself=rule.matcher.kind == kind,
        )
        for rule in rules
    ]
    if kind in kind_limits:
        limits.append(Limit(Watch(kind, None, ()), "[]", Measure.TASKS, kind_limits[kind]))
    if namespace in namespace_limits:
        limits.append(Limit(Watch(None, namespace, ()), "[]", Measure.TASKS, namespace_limits[namespace]))
    return limits


def remaining_work(expected_count: int | None, success: int, failures: int) -> int:
    return max(0, (expected_count or 0) - success - failures)


def values_key(metadata: Mapping[str, Any], fields: Sequence[str]) -> str:
    """The values of `fields` as one comparable text: equal JSON values give equal keys."""
    return json.dumps([_normal(metadata.get(name)) for name in fields], separators=(",", ":"), sort_keys=True)


def _normal(value: Any) -> Any:
    """JSON knows one kind of number: 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_normal(item) for item in value]
    if isinstance(value, dict):
        return {name: _normal(item) for name, item in value.items()}
    return value


def lane_of(
    executor: str,
    namespace: str,
    kind: str,
    rules: Sequence[Rule] = (),
    metadata: Mapping[str, Any] | None = None,
    destination: str = NOWHERE,
) -> int:
    """The lane of a task: equal for tasks that no limit can tell apart."""
    # Without a destination there is no word of it, so that tasks from before there were any keep their lanes.
    whom = (destination,) if destination else ()
    if not rules:
        return _hash_lane(executor, namespace, kind, "", *whom)
    parts = [(rule.to_json(), values_key(metadata or {}, rule.matcher.fields)) for rule in rules]
    return _hash_lane(executor, namespace, kind, json.dumps(parts, separators=(",", ":")), *whom)


@lru_cache(maxsize=4096)
def _hash_lane(*parts: str) -> int:
    digest = blake2b("\x00".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
