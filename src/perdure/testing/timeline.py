"""What happened to each task, and when: read off the transactions of the simulation as they are committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from perdure.domain.durations import show_duration
from perdure.domain.errors import NotFound
from perdure.domain.states import ACTIVE, LABELS, PAUSED, PAUSED_LABEL, Status
from perdure.store.changes import AttemptEnded, Changes, Moved


class Entry(NamedTuple):
    """Something that happened, so many seconds after the task was submitted."""

    seconds: float
    what: str


@dataclass(slots=True)
class Attempt:
    """One execution of a task. What is not known yet, or does not apply, is None."""

    number: int
    """0 for the first."""
    after_secs: float
    """Seconds from the submission to the beginning."""
    started_at: datetime
    ended_at: datetime | None = None
    outcome: str | None = None
    """success, failure, lost or canceled; None while it runs."""
    reason: str | None = None
    trigger: str | None = None
    error_class: str | None = None
    http_status: int | None = None
    code: str | None = None
    instance: str | None = None
    """The worker, or the engine, that ran it."""
    delay_secs: float | None = None
    """How long the next attempt had to wait."""
    delay_source: str | None = None
    charged: bool | None = None
    """Whether the retry counts against the budget."""
    next_retry_at: datetime | None = None


@dataclass(slots=True)
class _Story:
    submitted_at: datetime
    status: Status
    shown_paused: bool = False
    entries: list[Entry] = field(default_factory=list)
    attempts: dict[int, Attempt] = field(default_factory=dict)


class Journal:
    """The stories of all tasks. `changes` grows with everything that happens."""

    def __init__(self) -> None:
        self.changes = 0
        self._stories: dict[str, _Story] = {}

    def __contains__(self, id: str) -> bool:
        return id in self._stories

    def committed(self, changes: Changes) -> None:
        """Take down what a transaction changed."""
        if changes.moved or changes.switched or changes.attempts or changes.due_at or changes.counts["released", ""]:
            self.changes += 1
        for moved in changes.moved:
            self._move(moved, changes.at)
        for ended in changes.attempts:
            self._end_attempt(ended, changes.at)
        for switched in changes.switched:
            story = self._stories[switched.task_id]
            story.shown_paused = switched.shown_now == PAUSED
            story.entries.append(Entry(_seconds(story, changes.at), LABELS[switched.shown_now]))

    def submitted_at(self, id: str) -> datetime:
        return self._story(id).submitted_at

    def status(self, id: str) -> str:
        story = self._story(id)
        return PAUSED_LABEL if story.shown_paused and story.status.is_live else story.status.label

    def attempts(self, id: str) -> list[Attempt]:
        return [attempt for _, attempt in sorted(self._story(id).attempts.items())]

    def entries(self, id: str) -> list[Entry]:
        return list(self._story(id).entries)

    def _story(self, id: str) -> _Story:
        if id not in self._stories:
            raise NotFound("task", id)
        return self._stories[id]

    def _move(self, moved: Moved, at: datetime) -> None:
        story = self._stories.setdefault(moved.task_id, _Story(at, moved.target))
        story.status = moved.target
        seconds = _seconds(story, at)
        reason = f": {moved.reason}" if moved.reason else ""
        story.entries.append(Entry(seconds, f"{moved.target.label}{reason}"))
        if moved.target in ACTIVE and moved.attempt not in story.attempts:
            story.attempts[moved.attempt] = Attempt(moved.attempt, seconds, at)

    def _end_attempt(self, ended: AttemptEnded, at: datetime) -> None:
        story = self._stories[ended.task_id]
        attempt = story.attempts.setdefault(ended.attempt, Attempt(ended.attempt, _seconds(story, at), at))
        attempt.ended_at = at
        attempt.outcome = ended.outcome
        attempt.reason = ended.message
        attempt.trigger = ended.trigger
        attempt.error_class = ended.error_class
        attempt.http_status = ended.http_status
        attempt.code = ended.code
        attempt.instance = ended.instance
        attempt.delay_secs = ended.delay_secs
        attempt.delay_source = ended.delay_source
        attempt.charged = ended.charged
        attempt.next_retry_at = ended.next_retry_at


def _seconds(story: _Story, at: datetime) -> float:
    return (at - story.submitted_at).total_seconds()


def show_timeline(entries: Sequence[Entry]) -> str:
    """A timeline for people: a line for each entry."""
    moments = [show_duration(entry.seconds) for entry in entries]
    width = max((len(moment) for moment in moments), default=0)
    return "\n".join(f"  {moment:>{width}}  {entry.what}" for moment, entry in zip(moments, entries, strict=True))
