"""What every transaction leaves behind: the audit trail, the history of attempts, the outbox."""

from __future__ import annotations

from uuid_utils import uuid7

from perdure.domain.keys import Trigger, idempotency_key
from perdure.store.actions import destination_of_action
from perdure.store.changes import AttemptEnded, Delivery, Moved, Switched
from perdure.store.interface import Session

_EVENT_COLUMNS = ("task_id", "batch_id", "at", "from_status", "to_status", "attempt", "reason", "instance")
_ATTEMPT_COLUMNS = (
    "task_id",
    "attempt",
    "instance",
    "started_at",
    "ended_at",
    "outcome",
    "trigger",
    "error_class",
    "http_status",
    "code",
    "message",
    "delay_secs",
    "delay_source",
    "charged",
    "next_retry_at",
)


async def record_changes(session: Session) -> None:
    """Write what the session's changes call for, in the session's own transaction."""
    changes = session.changes
    events = [_event_row(session, moved) for moved in changes.moved if moved.source is not None]
    events += [_switch_row(session, switched) for switched in changes.switched]
    if events:
        await session.insert("event", _EVENT_COLUMNS, events)
    if changes.attempts:
        rows = [_attempt_row(session, attempt) for attempt in changes.attempts]
        await session.insert("task_attempt", _ATTEMPT_COLUMNS, rows)
        kept = session.options.history_max_attempts
        long = [(one.task_id, one.attempt - kept + 1) for one in changes.attempts if one.attempt >= kept]
        await session.fetch("trim_attempts", long)
    if changes.deliveries:
        queued = await session.fetch("queue_deliveries", [_delivery_row(item) for item in changes.deliveries])
        changes.count("idempotent_conflicts", by=len(changes.deliveries) - len(queued))


def _event_row(session: Session, moved: Moved) -> tuple[object, ...]:
    return (
        moved.task_id,
        moved.batch_id,
        session.now,
        moved.source,
        moved.target,
        moved.attempt,
        moved.reason,
        session.options.instance,
    )


def _switch_row(session: Session, switched: Switched) -> tuple[object, ...]:
    return (
        switched.task_id,
        switched.batch_id,
        session.now,
        switched.shown_before,
        switched.shown_now,
        switched.attempt,
        None,
        session.options.instance,
    )


def _attempt_row(session: Session, ended: AttemptEnded) -> tuple[object, ...]:
    return (
        ended.task_id,
        ended.attempt,
        ended.instance,
        ended.started_at,
        session.now,
        ended.outcome,
        ended.trigger,
        ended.error_class,
        ended.http_status,
        ended.code,
        ended.message,
        ended.delay_secs,
        ended.delay_source,
        ended.charged,
        ended.next_retry_at,
    )


def _delivery_row(delivery: Delivery) -> tuple[object, ...]:
    ends = delivery.trigger in (Trigger.SUCCESS, Trigger.FAILURE)
    return (
        str(uuid7()),
        delivery.task_id,
        "end" if ends else delivery.trigger.value,
        delivery.trigger.value if ends else "success",
        delivery.index,
        delivery.attempt,
        idempotency_key(delivery.task_id, delivery.trigger, delivery.attempt, delivery.index),
        delivery.params,
        destination_of_action(delivery.params),
    )
