"""One database, one clock, and short ways to do what an engine does and to see what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any, TypeVar

from uuid_utils import uuid7

from perdure.domain.drafts import BatchDraft, TaskDraft
from perdure.domain.errors import PerdureError
from perdure.domain.model import Executor, Failure, Submission, Task
from perdure.domain.policy import RetryLimits
from perdure.domain.states import Status
from perdure.engine.decisions import decision_maker
from perdure.engine.intake import Intake, Policies
from perdure.store.changes import Changes, Row
from perdure.store.interface import Session, StoreOptions
from perdure.store.records import task_from
from perdure.store.verbs import change, claim, end, fail, report, retry, start, submit, time
from perdure.store.verbs.submit import SubmissionKey, Submitted
from perdure.testing import VirtualClock
from perdure.webhooks.egress import OPEN
from tests.store.databases import AnyStore, Database
from tests.store.drafts import broken

LEASE = timedelta(seconds=60)
MANY = 100_000
Result = TypeVar("Result")
Item = TypeVar("Item")


def new_intake() -> Intake:
    """What turns drafts into rows, with nothing configured."""
    return Intake(lambda: str(uuid7()), Policies(), OPEN)


class Scenario:
    """Tasks are called by the keys that they were submitted with. Refusals are raised, as the engine raises them."""

    def __init__(self, database: Database, clock: VirtualClock, options: StoreOptions) -> None:
        self.database = database
        self.clock = clock
        self.options = options
        self.store: AnyStore = database.make_store(options, clock)
        self.committed: list[Changes] = []
        self.store.on_commit(self.committed.append)
        self.ids: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        self.decide = decision_maker(RetryLimits(), Random(1))
        self._intake = new_intake()
        self._others: list[Scenario] = []

    async def open(self) -> None:
        await self.store.open()

    async def close(self) -> None:
        for other in self._others:
            await other.close()
        await self.store.close()

    async def another(self, instance: str = "there", **options: Any) -> Scenario:
        """A second instance on the same database, at the same time of day."""
        other = Scenario(self.database, self.clock, StoreOptions(instance, **options))
        other.ids, other._keys = self.ids, self._keys
        await other.open()
        self._others.append(other)
        return other

    def prepare(self, draft: BatchDraft) -> Submission:
        """A batch that is checked and ready to be stored."""
        return self._intake.prepare(draft, self.clock.now())

    # What an engine does.

    async def submit(self, *tasks: TaskDraft, key: SubmissionKey | None = None, **batch: Any) -> str:
        """Store tasks as one batch; returns its id."""
        return (await self.submit_for_answer(list(tasks), key, **batch)).batch_id

    async def submit_for_answer(
        self, tasks: list[TaskDraft], key: SubmissionKey | None = None, **batch: Any
    ) -> Submitted:
        prepared = self.prepare(BatchDraft(tasks, **batch))
        submitted = await self._do(submit.submit, submit.Submit(prepared, key))
        self.know(submitted.tasks)
        return submitted

    def know(self, tasks: Iterable[Task]) -> None:
        """Remember tasks by their keys."""
        for task in tasks:
            self.ids[task.key] = task.id
            self._keys[task.id] = task.key

    async def claim_rows(self, most: int = MANY, **wanted: Any) -> claim.Claimed:
        now = self.clock.now()
        request = claim.Claim(
            wanted.pop("executor", Executor.WEBHOOK), most, lease_until=now + LEASE, stale=now - LEASE, **wanted
        )
        return await self.store.write(lambda session: claim.claim(session, request))

    async def claim(self, most: int = MANY, **wanted: Any) -> list[str]:
        """The keys of the tasks that were claimed and are to be started, in the order of the alphabet."""
        claimed = await self.claim_rows(most, **wanted)
        return sorted(self.key_of(row["id"]) for row in claimed.to_start)

    async def accept(self, *keys: str, attempt: int | None = None, cancel_params: str | None = None) -> None:
        """The receivers of on_start answered 2xx."""
        await self.answer(*[await self.answered(key, attempt, cancel_params=cancel_params) for key in keys])

    async def refuse(self, key: str, failure: Failure, attempt: int | None = None) -> None:
        """The receiver of on_start answered something else."""
        await self.answer(await self.answered(key, attempt, error=failure.message, failure=failure))

    async def finish(self, key: str, result: str | None = None, attempt: int | None = None) -> None:
        """The answer to on_start was the result."""
        await self.answer(await self.answered(key, attempt, finished=True, result=result))

    async def answered(self, key: str, attempt: int | None = None, **said: Any) -> start.Answered:
        """An answer to on_start, by default to that of the present attempt."""
        current = (await self.task(key)).attempt if attempt is None else attempt
        return start.Answered(self.ids[key], current, 500 if said.get("failure") else 200, **said)

    async def answer(self, *answers: start.Answered) -> None:
        await self.store.write(lambda session: start.settle_starts(session, answers, self.decide))

    async def run(self, *keys: str) -> None:
        """Bring pending tasks to Running; whatever else was claimable stays so."""
        rows = {self.key_of(row["id"]): row for row in (await self.claim_rows()).to_start}
        await self.answer(*[start.Answered(rows[key]["id"], rows[key]["attempt"], 200) for key in keys])
        others = [(rows[key]["id"], rows[key]["attempt"]) for key in rows.keys() - set(keys)]
        await self.store.write(lambda session: claim.release(session, others))

    async def succeed(self, *keys: str, attempt: int | None = None, result: str | None = None) -> None:
        await self._do(end.succeed, *[end.Succeed(self.ids[key], attempt, result) for key in keys])

    async def fail(self, *keys: str, failure: Failure | None = None, attempt: int | None = None) -> None:
        items = [fail.Failed(self.ids[key], attempt, failure or broken()) for key in keys]
        await self._do(lambda session, given: fail.fail(session, given, self.decide), *items)

    async def cancel(self, *keys: str, reason: str = "Canceled by request") -> None:
        await self._do(end.cancel, *[end.Cancel(self.ids[key], reason) for key in keys])

    async def report(self, *reports: report.Report) -> None:
        await self._do(lambda session, given: report.apply_reports(session, given, self.decide), *reports)

    async def edit(self, key: str, **edit: Any) -> None:
        await self.report(report.Report(self.ids[key], None, report.Edit(**edit)))

    async def count(self, key: str, success: int = 0, failures: int = 0) -> None:
        await self.store.write(lambda session: change.count(session, [(self.ids[key], success, failures)]))

    async def pause(self, *keys: str) -> None:
        await self._do(change.pause, *[self.ids[key] for key in keys])

    async def resume(self, *keys: str) -> None:
        await self._do(change.resume, *[self.ids[key] for key in keys])

    async def retry(self, *keys: str) -> None:
        """Somebody asks for another attempt by hand."""
        await self._do(retry.retry_tasks, *[retry.RetryTask(self.ids[key]) for key in keys])

    async def stop(self, batch_id: str) -> change.Stopped:
        return await self._do(change.stop_batch, batch_id)

    async def time_out(self, most: int = MANY) -> int:
        return await self.store.write(lambda session: time.time_out(session, most, self.decide))

    async def release_due(self, most: int = MANY) -> int:
        return await self.store.write(lambda session: time.release_due(session, most))

    async def reap(self, most: int = MANY) -> int:
        return await self.store.write(lambda session: claim.reap(session, most))

    async def release(self, key: str, attempt: int = 0) -> int:
        return await self.store.write(lambda session: claim.release(session, [(self.ids[key], attempt)]))

    async def _do(
        self, verb: Callable[[Session, Sequence[Item]], Awaitable[Sequence[Result | PerdureError]]], *items: Item
    ) -> Result:
        """Apply a verb to all items in one transaction; the last result, unless one of them was refused."""
        results = await self.store.write(lambda session: verb(session, items))
        for result in results:
            if isinstance(result, PerdureError):
                raise result
        last = results[-1]
        assert not isinstance(last, PerdureError)
        return last

    # What can be seen.

    def key_of(self, id: str) -> str:
        return self._keys[id]

    async def task(self, key: str) -> Task:
        (row,) = await self.fetch("read_task", id=self.ids[key])
        return task_from(row)

    async def status(self, key: str) -> Status:
        return (await self.task(key)).status

    async def statuses(self, *keys: str) -> dict[str, str]:
        """By key, the status of the named tasks, or of all."""
        rows = await self.query("SELECT id, status FROM task")
        found = {row["id"]: row["status"] for row in rows}
        return {key: found[self.ids[key]] for key in keys or self.ids if self.ids[key] in found}

    async def column(self, key: str, name: str) -> Any:
        """One column of a task's row."""
        (row,) = await self.query(f"SELECT {name} FROM task WHERE id = ?", self.ids[key])
        return row[name]

    async def moves(self, key: str) -> list[tuple[str, str]]:
        """The audit trail of a task: from which status to which, oldest first."""
        rows = await self.fetch("task_events", id=self.ids[key], most=MANY)
        return [(row["from_status"], row["to_status"]) for row in rows]

    async def attempts(self, key: str) -> list[Row]:
        return await self.fetch("task_attempts", id=self.ids[key], most=MANY)

    async def deliveries(self, key: str) -> list[Row]:
        id = self.ids[key]
        return await self.fetch("task_deliveries", first=f"{id}:", last=f"{id};", most=MANY)

    async def hooks(self, key: str) -> list[str]:
        """What is to be sent for a task, or was, as `trigger:attempt[:index]`; without the starts."""
        keys = [row["idempotency_key"].partition(":")[2] for row in await self.deliveries(key)]
        return sorted(text for text in keys if not text.startswith("start:"))

    async def fetch(self, name: str, **parameters: Any) -> list[Row]:
        return await self.store.read(lambda session: session.fetch(name, **parameters))

    async def query(self, sql: str, *parameters: Any) -> list[Row]:
        return await self.store.read(lambda session: session.query(sql, parameters))


def counted(values: Iterable[str]) -> Mapping[str, int]:
    """How often each value occurs."""
    found: dict[str, int] = {}
    for value in values:
        found[value] = found.get(value, 0) + 1
    return found
