"""The commands: what can be asked of the engine. Each returns once it is on disk, or raises why not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from perdure.clock import Clock
from perdure.domain.checks import METADATA_BYTES, PAYLOAD_BYTES, check_report, clip, parse_rules
from perdure.domain.classify import failure_from_report
from perdure.domain.drafts import BatchDraft, ReportDraft, RevisionDraft, RulesDraft
from perdure.domain.errors import Invalid, PerdureError, Problem, StillProcessing
from perdure.domain.model import Submission, Task
from perdure.domain.preview import Preview
from perdure.domain.rules import Rule
from perdure.domain.states import Status
from perdure.engine.counters import Counters
from perdure.engine.intake import Intake, encode_json
from perdure.engine.policies import preview_policy
from perdure.engine.revision import revise
from perdure.engine.writer import Writer
from perdure.store.changes import Row
from perdure.store.interface import Session
from perdure.store.records import task_from
from perdure.store.verbs import change, end
from perdure.store.verbs.deliver import redrive
from perdure.store.verbs.fail import Decide
from perdure.store.verbs.report import Edit, Report, apply_reports
from perdure.store.verbs.retry import RetryTask, retry_batch, retry_tasks
from perdure.store.verbs.submit import SubmissionKey, Submit, Submitted, submit

LONGEST_IN_LOOP = 1000
CANCELED_REASON = "Canceled by request"


class Commands:
    """Everything that changes tasks on request. Callers share transactions through the writer."""

    def __init__(
        self,
        writer: Writer,
        intake: Intake,
        counters: Counters,
        clock: Clock,
        decide: Decide,
        classification: Mapping[str, str] | None = None,
    ) -> None:
        self._writer = writer
        self._intake = intake
        self._policies = intake.policies
        self._counters = counters
        self._clock = clock
        self._decide = decide
        self._classification = classification or {}
        self._keys_under_way: set[str] = set()

    async def submit(self, draft: BatchDraft, key: SubmissionKey | None = None) -> Submitted:
        """Store a batch, whole or not at all. With a key seen before, the first answer comes back."""
        if key is not None and key.key in self._keys_under_way:
            raise StillProcessing("A request with this Idempotency-Key is being processed; ask again in a moment.")
        if key is not None:
            self._keys_under_way.add(key.key)
        try:
            prepared = await self._prepare(draft)
            return await self._writer.do(submit, Submit(prepared, key))
        finally:
            if key is not None:
                self._keys_under_way.discard(key.key)

    async def _prepare(self, draft: BatchDraft) -> Submission:
        if len(draft.tasks) <= LONGEST_IN_LOOP:
            return self.prepare(draft)
        # Checking 100,000 tasks takes seconds; others must be served meanwhile.
        return await asyncio.to_thread(self.prepare, draft)

    def prepare(self, draft: BatchDraft) -> Submission:
        """Check a batch and build its rows, without storing them; raises Invalid."""
        return self._intake.prepare(draft, self._clock.now())

    async def report(self, task_id: str, draft: ReportDraft) -> Task:
        """Take a report about a task: progress, changes, its end. The task as it is afterwards."""
        item = self._report_from(task_id, draft)
        return task_from(await self._writer.do(self._report, item))

    async def _report(self, session: Session, items: Sequence[Report]) -> Sequence[Row | PerdureError]:
        return await apply_reports(session, items, self._decide)

    def _report_from(self, task_id: str, draft: ReportDraft) -> Report:
        problems = check_report(draft)
        result = encode_json(problems, "result", draft.result, PAYLOAD_BYTES)
        encode_json(problems, "metadata", draft.metadata, METADATA_BYTES)
        if problems:
            raise Invalid(problems)
        failure = None
        if draft.status == Status.FAILURE.label:
            failure = failure_from_report(
                clip(draft.failure_reason or ""),
                draft.error_class,
                draft.retry_after,
                draft.code,
                self._clock.now(),
                self._classification,
            )
        succeeded = draft.status == Status.SUCCESS.label
        edit = Edit(
            draft.metadata, draft.new_success or 0, draft.new_failures or 0, draft.expected_count, draft.priority
        )
        # A report that says nothing at all is a sign of life, and moves last_updated like an edit.
        ends = succeeded or failure is not None
        return Report(task_id, draft.attempt, None if ends and edit == Edit() else edit, succeeded, result, failure)

    async def cancel(self, task_id: str) -> Task:
        return task_from(await self._writer.do(end.cancel, end.Cancel(task_id, CANCELED_REASON)))

    async def pause(self, task_id: str) -> Task:
        return task_from(await self._writer.do(change.pause, task_id))

    async def resume(self, task_id: str) -> Task:
        return task_from(await self._writer.do(change.resume, task_id))

    async def retry(self, task_id: str, revision: RevisionDraft | None = None) -> Task:
        """Try a task again now: drop its wait, or give it a new attempt with a fresh budget and restore its wake."""
        revised = None
        if revision is not None:
            revised = partial(revise, draft=revision, policies=self._policies, egress=self._intake.egress)
        return task_from(await self._writer.do(retry_tasks, RetryTask(task_id, revised)))

    async def retry_batch(self, batch_id: str) -> int:
        """Retry everything that failed in a batch, in place; how many tasks live again."""
        return await self._writer.do(retry_batch, batch_id)

    def preview(self, policy: Mapping[str, Any] | str) -> Preview:
        """What a policy, or the one of this name, would do from now on; changes nothing."""
        return preview_policy(policy, self._policies, self._clock.now())

    async def redrive(self, delivery_id: str) -> Row:
        """Send an end or cancel webhook once more, now; the delivery as it is afterwards."""
        return await self._writer.do(redrive, delivery_id)

    async def count(self, task_id: str, new_success: int, new_failures: int) -> None:
        """Add to a task's counters soon: the high-rate path. Raises NotFound for an unknown task."""
        await self._counters.add(task_id, new_success, new_failures)

    async def stop_batch(self, batch_id: str) -> change.Stopped:
        return await self._writer.do(change.stop_batch, batch_id)

    async def change_rules(self, batch_id: str, draft: RulesDraft) -> int:
        """Replace the rules of a batch's live tasks of a kind; how many were changed."""
        return await self._writer.do(
            change.change_rules, change.ChangeRules(batch_id, draft.kind, _rules_parser(draft))
        )

    async def pause_scope(self, scope: str, name: str) -> bool:
        """Hold back all claims of a kind or namespace, on every instance; False if they were already."""
        return await self._writer.do(change.pause_scope, change.Scope(scope, name))

    async def resume_scope(self, scope: str, name: str) -> bool:
        return await self._writer.do(change.resume_scope, change.Scope(scope, name))


def _rules_parser(draft: RulesDraft) -> Callable[[Row], tuple[list[Rule], list[Problem]]]:
    def parse(row: Row) -> tuple[list[Rule], list[Problem]]:
        problems: list[Problem] = []
        metadata = msgspec.json.decode(row["metadata"]) if row["metadata"] else {}
        return parse_rules(problems, "rules", draft.rules, metadata, row["expected_count"]), problems

    return parse
