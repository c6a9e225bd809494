"""Random graphs and random deeds: after every step, what must never change has not changed."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perdure.domain.drafts import TaskDraft
from perdure.domain.errors import Conflict, StaleAttempt
from perdure.domain.model import Condition, ErrorClass
from perdure.domain.states import Status
from perdure.store.interface import StoreOptions
from perdure.store.verbs.sweep import FIRST_ID, sweep
from perdure.testing import VirtualClock
from tests.store.audit import audit
from tests.store.databases import SqliteDatabase
from tests.store.drafts import a_task, broken, fixed_retry
from tests.store.scenario import Scenario

KEYS = [f"t{number}" for number in range(6)]
TIMEOUT = 20
BUDGET = 2
POLICIES: list[dict[str, Any] | None] = [
    None,
    fixed_retry(delay_secs=10, max_retries=BUDGET),
    fixed_retry(delay_secs=0, max_retries=BUDGET),
    fixed_retry(delay_secs=5, max_retries=BUDGET, on_exhausted="pause"),
]
#: Which endings of a parent meet a condition of its child.
MET = {
    Condition.ON_SUCCESS: {Status.SUCCESS},
    Condition.ON_FAILURE: {Status.FAILURE, Status.CANCELED},
    Condition.ALWAYS: {Status.SUCCESS, Status.FAILURE, Status.CANCELED, Status.SKIPPED},
}
#: More rounds than any of these graphs needs to come to its end.
MOST_ROUNDS = 100

Row = dict[str, Any]
Result = TypeVar("Result")


@st.composite
def graphs(draw: st.DrawFn) -> list[TaskDraft]:
    """Up to six tasks, each waiting for some of those before it."""
    tasks = []
    for number, key in enumerate(KEYS[: draw(st.integers(2, len(KEYS)))]):
        parents = draw(st.lists(st.sampled_from(KEYS[:number]), unique=True, max_size=3)) if number else []
        after = {parent: draw(st.sampled_from(list(Condition))).value for parent in parents}
        policy = draw(st.sampled_from(POLICIES))
        tasks.append(
            a_task(key, after=after, timeout=TIMEOUT, retry=policy, dead_end_barrier=draw(st.booleans()) or None)
        )
    return tasks


class Retrying(RuleBasedStateMachine):
    """An instance on SQLite. Each deed is done to a random task, whether the task can take it or not."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.clock = VirtualClock()
        database = SqliteDatabase(Path(self.folder.name) / "perdure.db")
        self.scenario = Scenario(database, self.clock, StoreOptions("here"))
        self.run(self.scenario.open())
        self.before: dict[str, Row] = {}
        self.parents: dict[str, list[tuple[str, Condition]]] = {}
        self.accepted: set[tuple[str, int]] = set()
        self.asked: str | None = None
        """The task that a person asked to live again in this step."""

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(work)

    def teardown(self) -> None:
        try:
            if self.parents:
                self.run(self.come_to_an_end())
        finally:
            self.run(self.scenario.close())
            self.runner.close()
            self.folder.cleanup()

    @initialize(tasks=graphs())
    def submit(self, tasks: list[TaskDraft]) -> None:
        self.run(self.scenario.submit(*tasks))
        for task in tasks:
            links = task.dependencies or []
            self.parents[task.id] = [(link.id, Condition(link.condition or "on_success")) for link in links]
        self.before = self.read()

    def read(self) -> dict[str, Row]:
        rows = self.run(self.scenario.query("SELECT * FROM task"))
        return {row["key"]: dict(row) for row in rows}

    def try_to(self, deed: Coroutine[Any, Any, object]) -> bool:
        """Do it; False if it was refused because of the state of things."""
        with suppress(Conflict):
            self.run(deed)
            return True
        return False

    def present(self, number: int) -> str:
        """One of the tasks that there are."""
        keys = list(self.parents)
        return keys[number % len(keys)]

    numbers = st.integers(0, len(KEYS) - 1)

    @rule(number=numbers, accepted=st.booleans())
    def start(self, number: int, accepted: bool) -> None:
        """Everything that can is claimed, and all but one of the receivers accept."""
        claimed = self.run(self.scenario.claim())
        refused = self.present(number)
        self.run(self.scenario.accept(*[key for key in claimed if accepted or key != refused]))
        if not accepted and refused in claimed:
            self.note_result(refused, self.try_to(self.scenario.refuse(refused, broken("not accepted"))))

    @rule(number=numbers)
    def succeed(self, number: int) -> None:
        key = self.present(number)
        self.note_result(key, self.try_to(self.scenario.succeed(key)))

    @rule(number=numbers, error_class=st.sampled_from(list(ErrorClass)), wait=st.sampled_from([None, 3.0]))
    def fail(self, number: int, error_class: ErrorClass, wait: float | None) -> None:
        key = self.present(number)
        failure = broken(error_class=error_class, retry_after_secs=wait)
        accepted = self.try_to(self.scenario.fail(key, failure=failure))
        self.note_result(key, accepted)
        if accepted and self.read()[key]["status"] == Status.RETRY_PENDING:
            # I9, at its strictest: of all rows only the one of the failing task has changed.
            others = {other: row for other, row in self.read().items() if other != key}
            assert others == {other: row for other, row in self.before.items() if other != key}

    @rule(number=numbers)
    def report_late(self, number: int) -> None:
        """An earlier attempt speaks: it is refused, and nothing changes."""
        key = self.present(number)
        attempt = self.before[key]["attempt"] - 1
        if attempt >= 0:
            for deed in (self.scenario.succeed, self.scenario.fail):
                ask: Callable[..., Coroutine[Any, Any, None]] = deed
                try:
                    self.run(ask(key, attempt=attempt))
                except StaleAttempt:
                    continue
                raise AssertionError("an attempt that is over was heard")
            assert self.read() == self.before

    @rule(number=numbers)
    def cancel(self, number: int) -> None:
        self.try_to(self.scenario.cancel(self.present(number)))

    @rule(number=numbers)
    def pause(self, number: int) -> None:
        self.try_to(self.scenario.pause(self.present(number)))

    @rule(number=numbers)
    def resume(self, number: int) -> None:
        self.asked = self.present(number)
        self.try_to(self.scenario.resume(self.asked))

    @rule(number=numbers)
    def retry(self, number: int) -> None:
        key = self.present(number)
        if self.startable(key):
            self.asked = key
            self.try_to(self.scenario.retry(key))

    @precondition(lambda self: any(row["status"] == Status.RETRY_PENDING for row in self.before.values()))
    @rule()
    def wait_for_the_next_retry(self) -> None:
        moments = [row["next_retry_at"] for row in self.before.values() if row["next_retry_at"] is not None]
        if moments:
            self.clock.set(max(self.clock.now(), min(moments)))
        self.run(self.scenario.release_due())

    @rule(seconds=st.sampled_from([1, 5, TIMEOUT]))
    def advance(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.run(self.scenario.time_out())
        for key, row in self.read().items():
            if row["attempt"] != self.before[key]["attempt"] and self.before[key]["status"] == Status.RUNNING:
                self.note_result(key, True)
        self.run(self.scenario.reap())
        self.run(self.scenario.release_due())

    def startable(self, key: str) -> bool:
        """Whether no parent that stays over keeps the task from starting; asking for it all the same is force."""
        for parent, condition in self.parents[key]:
            row = self.before[parent]
            dead_end = row["status"] == Status.CANCELED and row["ended_by"] is not None
            if not self.meets(parent, condition, self.before) and not Status(row["status"]).is_live:
                needed = condition is not Condition.ON_FAILURE
                if not (dead_end and needed and self.startable(parent)):
                    return False
        return True

    @staticmethod
    def meets(parent: str, condition: Condition, rows: dict[str, Row]) -> bool:
        return Status(rows[parent]["status"]) in MET[condition]

    def note_result(self, key: str, accepted: bool) -> None:
        """I6: an attempt is ended by one result only."""
        if accepted:
            result = (key, self.before[key]["attempt"])
            assert result not in self.accepted
            self.accepted.add(result)

    @invariant()
    def nothing_forbidden_has_happened(self) -> None:
        if not self.parents:
            return
        now = self.read()
        for key, row in now.items():
            was = self.before[key]
            source, status = Status(was["status"]), Status(row["status"])
            # I2: what is over changes by hand only: the task that was asked for, and what ended because of another.
            asked_for = self.asked is not None and (key == self.asked or was["ended_by"] is not None)
            assert source.is_live or asked_for or row == was, (was, row)
            # I3: nobody who waited was let go before everything that it waited for was there.
            if source is Status.WAITING and status is Status.PENDING:
                assert all(self.meets(parent, condition, now) for parent, condition in self.parents[key]), key
            # I6: retries stay within the budget, and every attempt is counted.
            assert row["retry_count"] <= min(BUDGET, row["attempt"])
            assert row["attempt"] >= was["attempt"]
            # I9: while all of its parents live, a waiting child is untouched by what they go through.
            alive = all(Status(now[parent]["status"]).is_live for parent, _ in self.parents[key])
            if source is Status.WAITING and alive and self.asked is None:
                assert status in (Status.WAITING, Status.CANCELED), (was, row)
                assert row["waits"] == was["waits"] or status is Status.CANCELED
        self.run(audit(self.scenario.store))
        # I3: the sweeper counts again and agrees.
        assert self.run(self.scenario.store.write(lambda session: sweep(session, FIRST_ID, 100))).corrected == []
        self.before = now
        self.asked = None

    async def come_to_an_end(self) -> None:
        """Everything that lives can be brought to an end, and then the database still agrees with itself."""
        scenario = self.scenario
        for _ in range(MOST_ROUNDS):
            live = {key for key, status in (await scenario.statuses()).items() if Status(status).is_live}
            if not live:
                break
            for key in live:
                if (await scenario.task(key)).paused:
                    await scenario.resume(key)
            self.clock.advance(100)
            await scenario.reap()
            await scenario.release_due()
            await scenario.accept(*await scenario.claim())
            for key in live:
                if (await scenario.status(key)) is Status.RUNNING:
                    await scenario.succeed(key)
        else:
            raise AssertionError(f"these tasks do not end: {await scenario.statuses()}")
        await audit(scenario.store)


Retrying.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, derandomize=True)
test_random_deeds_break_no_invariant = Retrying.TestCase
