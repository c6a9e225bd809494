"""Tasks to measure with."""

from __future__ import annotations

from perdure.domain.drafts import BatchDraft, TaskDraft

PAYLOAD = {"order": 7, "note": "x" * 150}


def batch_of(count: int) -> BatchDraft:
    return BatchDraft(
        [TaskDraft(id=f"t{number}", name="bench", kind="noop", payload=PAYLOAD) for number in range(count)]
    )
