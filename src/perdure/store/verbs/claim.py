"""Claiming: who starts next, without any limit being exceeded, on any number of instances."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
from uuid_utils import uuid7

from perdure.domain.destinations import NOWHERE
from perdure.domain.keys import Trigger, idempotency_key
from perdure.domain.model import Executor
from perdure.domain.rules import (
    Candidate,
    Limit,
    Occupancy,
    Rule,
    Usage,
    Watch,
    limits_of,
    remaining_work,
    values_key,
)
from perdure.domain.states import Status
from perdure.store.changes import Moved, Row
from perdure.store.interface import Session


@dataclass(frozen=True, slots=True)
class Claim:
    """What an instance is ready to take."""

    executor: Executor
    most: int
    lease_until: datetime
    stale: datetime
    """Sends begun before this moment and never settled are taken over."""
    kinds: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    kind_limits: Mapping[str, int] = field(default_factory=dict)
    namespace_limits: Mapping[str, int] = field(default_factory=dict)
    per_destination: int | None = None
    """Most calls under way to one destination; None sets no limit."""
    busy: Mapping[str, int] = field(default_factory=dict)
    """How many calls of this instance are under way to which destination."""

    def places(self, destination: str) -> int:
        """How many tasks that call this destination could be sent at once."""
        if self.per_destination is None or destination == NOWHERE:
            return self.most
        return min(self.most, self.per_destination - self.busy.get(destination, 0))


@dataclass(frozen=True, slots=True)
class Claimed:
    """Tasks taken: those to send, and those whose start was received before a crash and that run already."""

    to_start: list[Row]
    running: list[Row]
    seen: int
    """How many candidates there were; more than were taken means that others are at it, or limits held some back."""


async def claim(session: Session, request: Claim) -> Claimed:
    lanes = await _open_lanes(session, request)
    if not lanes:
        return Claimed([], [], 0)
    if any(limits for _, limits in lanes):
        picked, seen = await _pick_within_limits(session, request, lanes)
    else:
        # What is next stands at the head of one of as many lanes: no need to look into more.
        near = sorted((lane for lane, _ in lanes), key=_order)[: request.most]
        heads = await session.fetch(
            "take_heads", _rooms(request, [(lane, request.most) for lane in near]), most=request.most
        )
        picked, seen = heads, len(heads)
    # A worker runs what it claims; on_start has to be accepted first.
    works = request.executor is Executor.WORKER
    claimed = await session.fetch(
        "begin" if works else "claim",
        # With its lane, because a task that was put under other limits meanwhile was not checked against those.
        [(head["id"], head["lane"]) for head in picked],
        instance=session.options.instance,
        lease_until=request.lease_until,
    )
    claimable_since = {head["id"]: head["last_updated"] for head in picked}
    for row in claimed:
        session.changes.moved.append(_moved(row, Status.PENDING, Status.RUNNING if works else Status.CLAIMED))
        waited = (session.now - claimable_since[row["id"]]).total_seconds()
        session.changes.waited.append((row["kind"], waited))
    if works:
        return Claimed(claimed, [], seen)
    return await _open_starts(session, request, claimed, seen)


def _order(lane: Row) -> tuple[object, ...]:
    """Lanes in the order in which their first tasks are claimed."""
    return -lane["priority"], lane["created_at"], lane["position"]


def _rooms(request: Claim, lanes: Sequence[tuple[Row, int]]) -> list[tuple[int, int, int, int]]:
    """For each lane how many tasks may start from it, and from all lanes together that call the same destination."""
    teams: dict[object, int] = {}
    rows = []
    for lane, room in lanes:
        destination = lane["destination"]
        # Those who call nobody share nothing.
        team = teams.setdefault(destination or lane["lane"], len(teams))
        places = request.places(destination)
        rows.append((lane["lane"], min(room, places), team, places))
    return rows


def _moved(row: Row, source: Status, target: Status, reason: str | None = None) -> Moved:
    return Moved(row["id"], row["batch_id"], row["kind"], source, target, row["attempt"], reason)


async def _open_lanes(session: Session, request: Claim) -> list[tuple[Row, list[Limit]]]:
    """The lanes with claimable tasks that this instance may serve, each with the limits that its tasks must hold."""
    lanes = []
    for lane in await session.fetch("open_lanes"):
        kind, namespace = lane["kind"], lane["namespace"]
        if (
            lane["executor"] != request.executor
            or (request.kinds and kind not in request.kinds)
            or (request.namespaces and namespace not in request.namespaces)
            or lane["held_back"]
            or request.places(lane["destination"]) <= 0
        ):
            continue
        rules = [Rule.from_json(rule) for rule in msgspec.json.decode(lane["rules"])]
        metadata = msgspec.json.decode(lane["metadata"]) if rules and lane["metadata"] else {}
        limits = limits_of(kind, namespace, rules, metadata, request.kind_limits, request.namespace_limits)
        lanes.append((lane, limits))
    return lanes


async def _pick_within_limits(
    session: Session, request: Claim, lanes: Sequence[tuple[Row, list[Limit]]]
) -> tuple[list[Row], int]:
    """The tasks that may start together; one instance at a time, so that no two admit at once."""
    await session.fetch("lock_name", name="rules")
    occupancy = await _occupancy(session, [limit for _, limits in lanes for limit in limits])
    rooms = [(lane, occupancy.room(limits, request.most)) for lane, limits in lanes]
    free = [(lane, room) for lane, room in rooms if room > 0]
    session.changes.count("blocked_by_concurrency", by=len(rooms) - len(free))
    heads = await session.fetch("lane_heads", _rooms(request, free), most=request.most)
    limits_by_lane = {lane["lane"]: limits for lane, limits in lanes}
    admitted = occupancy.admit(
        Candidate(
            head["id"],
            head["lane"],
            head["kind"],
            head["namespace"],
            msgspec.json.decode(head["metadata"]) if head["metadata"] else {},
            remaining_work(head["expected_count"], head["success"], head["failures"]),
            limits_by_lane[head["lane"]],
        )
        for head in heads
    )
    chosen = {candidate.id for candidate in admitted}
    return sorted((head for head in heads if head["id"] in chosen), key=lambda head: str(head["id"])), len(heads)


async def _occupancy(session: Session, limits: Sequence[Limit]) -> Occupancy:
    watches: list[Watch] = list(dict.fromkeys(limit.watch for limit in limits))
    rows = [(number, watch.kind, watch.namespace, json.dumps(watch.fields)) for number, watch in enumerate(watches)]
    occupancy = Occupancy()
    for row in await session.fetch("occupancy", rows):
        watch = watches[row["n"]]
        values = dict(zip(watch.fields, json.loads(row["key"]), strict=True))
        key = values_key(values, watch.fields)
        usage = occupancy.usage.setdefault((watch, key), Usage())
        usage.tasks += row["tasks"]
        usage.work += row["work"]
    return occupancy


async def _open_starts(session: Session, request: Claim, claimed: Sequence[Row], seen: int) -> Claimed:
    """Write the ledger row of each on_start before it is sent; a key that was received already is not sent again."""
    keys = {idempotency_key(row["id"], Trigger.START, row["attempt"]): row for row in claimed}
    opened = await session.fetch(
        "open_starts",
        [(str(uuid7()), row["id"], row["attempt"], key) for key, row in keys.items()],
        instance=session.options.instance,
        stale=request.stale,
    )
    mine = {row["idempotency_key"] for row in opened}
    others = [key for key in keys if key not in mine]
    if not others:
        return Claimed(list(claimed), [], seen)
    received = [
        (row["task_id"], row["attempt"])
        for row in await session.fetch("read_starts", [(key,) for key in others])
        if row["status"] == "success"
    ]
    running = await session.fetch("start", received)
    for row in running:
        session.changes.moved.append(
            _moved(row, Status.CLAIMED, Status.RUNNING, "on_start was received before a restart")
        )
    session.changes.count("idempotent_skips", Trigger.START, len(running))
    session.changes.count("idempotent_conflicts", by=len(others) - len(received))
    return Claimed([keys[key] for key in keys if key in mine], running, seen)


async def release(session: Session, claims: Sequence[tuple[str, int]]) -> int:
    """Give back claims of ours that were not sent; nobody need wait for their lease to run out."""
    rows = await session.fetch("release_claims", claims, instance=session.options.instance)
    for row in rows:
        session.changes.moved.append(_moved(row, Status.CLAIMED, Status.PENDING, "released before it was sent"))
    keys = [(idempotency_key(row["id"], Trigger.START, row["attempt"]),) for row in rows]
    await session.fetch("forget_starts", keys, instance=session.options.instance)
    return len(rows)


async def reap(session: Session, most: int) -> int:
    """Take back claims whose lease ran out: their instance is gone, and the send's fate unknown."""
    expired = await session.fetch("expired_claims", most=most)
    rows = await session.fetch("reap_claims", [(row["id"],) for row in expired])
    for row in rows:
        session.changes.moved.append(_moved(row, Status.CLAIMED, Status.PENDING, "the claim ran out"))
    return len(rows)
