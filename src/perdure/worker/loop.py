"""The worker's own loop: hands in what is done and takes what can be run, in one transaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from perdure.clock import Clock
from perdure.domain.errors import PerdureError, Unavailable
from perdure.domain.model import Executor, Failure
from perdure.domain.states import Status
from perdure.engine.loops.loop import Loop, run_forever
from perdure.engine.wakeups import Topic, Wakeups
from perdure.store.changes import Changes, Row
from perdure.store.interface import Store
from perdure.store.verbs.claim import Claim
from perdure.store.verbs.end import Succeed
from perdure.store.verbs.fail import Decide, Failed
from perdure.store.verbs.work import WORKER_LOST, Round, Sign, Turn, work
from perdure.worker.context import Canceled, Context
from perdure.worker.execution import Execution
from perdure.worker.handlers import Handler, Mode
from perdure.worker.held import Held, HeldTasks
from perdure.worker.outcomes import SHUT_DOWN, UNWRITABLE, Raised, deciding_by_name, failure_from
from perdure.worker.processes import ProcessLost
from perdure.worker.pulse import PulseLoop, SignLoop

log = logging.getLogger("perdure.worker")

CANCEL_SECS = 5.0
HAND_IN_SECS = 0.2


@dataclass(frozen=True, slots=True)
class WorkSettings:
    concurrency: int
    claim_batch: int
    lease_secs: float
    interval_secs: float
    grace_secs: float
    namespaces: frozenset[str] = frozenset()
    kind_limits: Mapping[str, int] = field(default_factory=dict)
    namespace_limits: Mapping[str, int] = field(default_factory=dict)
    classification: Mapping[str, str] = field(default_factory=dict)


class SecondLoop(Loop):
    """Further rounds of the same worker: while the database writes one, the next is put together."""

    name = "work beside"
    topic = Topic.WORK

    def __init__(self, first: WorkLoop) -> None:
        self.interval_secs = first.interval_secs
        self._first = first

    async def run_once(self) -> bool:
        return await self._first.run_once()


class WorkLoop(Loop):
    """Claims no more than it can run at once."""

    name = "work"
    topic = Topic.WORK

    def __init__(
        self,
        store: Store,
        handlers: Mapping[str, Handler],
        execution: Execution,
        held: HeldTasks,
        pulse: PulseLoop,
        signs: SignLoop,
        clock: Clock,
        decide: Decide,
        wakeups: Wakeups,
        settings: WorkSettings,
    ) -> None:
        self.interval_secs = settings.interval_secs
        self._store = store
        self._handlers = handlers
        self._execution = execution
        self._held = held
        self._pulse = pulse
        self._signs = signs
        self._clock = clock
        self._decide = deciding_by_name(decide)
        self._wakeups = wakeups
        self._settings = settings
        self._reading = frozenset(kind for kind, handler in handlers.items() if handler.context_parameter)
        self._claims = True
        self._asked = 0
        self._succeeded: list[Succeed] = []
        self._failed: list[Failed] = []
        self._last_signs: list[Sign] = []
        self._idle = asyncio.Event()
        self._idle.set()
        store.on_commit(self._let_go)

    @property
    def unreported(self) -> int:
        """Results that are not written yet."""
        return len(self._succeeded) + len(self._failed)

    async def run_once(self) -> bool:
        """One transaction: results in, tasks out. True if more may be claimable right away."""
        wanted = self._claim()
        if wanted is None and not self.unreported:
            return False
        told = Round(self._succeeded, self._failed, wanted, self._reading, self._last_signs)
        self._succeeded, self._failed, self._last_signs = [], [], []
        asked = 0 if wanted is None else wanted.most
        self._asked += asked
        try:
            turn = await self._exchange(told)
        finally:
            self._asked -= asked
        for problem in turn.refused:
            log.warning("a result came too late and was not taken", extra={"fields": {"reason": str(problem)}})
        for row in turn.begun:
            self._begin(row, turn.parents.get(row["id"], []))
        # Nothing was left behind, or no place was: the end of a task, or a wake-up, is the next thing to happen.
        return bool(turn.begun) and len(self._held) < self._settings.concurrency

    def _claim(self) -> Claim | None:
        taken = len(self._held) + self._asked + self._execution.abandoned
        most = min(self._settings.claim_batch, self._settings.concurrency - taken)
        # Without a kind, everything would be claimed.
        if most <= 0 or not self._claims or not self._handlers:
            return None
        now = self._clock.now()
        return Claim(
            Executor.WORKER,
            most,
            lease_until=now + timedelta(seconds=self._settings.lease_secs),
            stale=now,
            kinds=frozenset(self._handlers),
            namespaces=self._settings.namespaces,
            kind_limits=self._settings.kind_limits,
            namespace_limits=self._settings.namespace_limits,
        )

    async def _exchange(self, told: Round) -> Turn:
        try:
            return await self._store.write(partial(work, told=told, decide=self._decide))
        except Unavailable:
            # The database is away: keep the results for the next round.
            self._succeeded[:0] = told.succeeded
            self._failed[:0] = told.failed
            self._last_signs[:0] = told.signs
            raise
        except Exception:
            if len(told.succeeded) + len(told.failed) == 0:
                raise
            log.exception("a round could not be written; its results are written one by one")
            return await self._tell_apart(told)

    async def _tell_apart(self, told: Round) -> Turn:
        """One result spoils the transaction of all: each goes alone, and what cannot be written becomes a failure."""
        turn = Turn()
        alone = [Round([one], [], None) for one in told.succeeded] + [Round([], [one], None) for one in told.failed]
        for one in alone:
            try:
                turn.refused.extend((await self._tell(one)).refused)
            except Unavailable:
                self._succeeded.extend(one.succeeded)
                self._failed.extend(one.failed)
        return turn

    async def _tell(self, one: Round) -> Turn:
        try:
            return await self._store.write(partial(work, told=one, decide=self._decide))
        except Unavailable:
            raise
        except Exception:
            item: Succeed | Failed = one.succeeded[0] if one.succeeded else one.failed[0]
            log.exception("a result could not be written; the task fails", extra={"fields": {"task": item.task_id}})
        try:
            instead = Round([], [Failed(item.task_id, item.attempt, UNWRITABLE)], None)
            return await self._store.write(partial(work, told=instead, decide=self._decide))
        except Unavailable:
            raise
        except Exception:
            log.exception("nor could its failure; its lease runs out", extra={"fields": {"task": item.task_id}})
            return Turn()

    def _begin(self, row: Row, parents: list[Row]) -> None:
        context = Context(
            row["id"], row["batch_id"], row["kind"], row["name"], row["attempt"], parents, self._signs.add
        )
        held = Held(context, linked=row["linked"])
        self._held.add(held)
        self._idle.clear()
        held.running = asyncio.create_task(self._run(held, row), name=f"task {row['id']}")

    async def _run(self, held: Held, row: Row) -> None:
        """Run the function and keep what became of it for the next round."""
        held.begun = True
        succeeded: Succeed | None = None
        failure: Failure | None = None
        try:
            held.context.raise_if_canceled()
            outcome = await self._execution.run(self._handlers[row["kind"]], row["payload"], held.context)
            if held.context._heard:
                failure = SHUT_DOWN
            elif isinstance(outcome, Raised):
                failure = failure_from(outcome, self._clock.now(), self._settings.classification)
            else:
                succeeded = Succeed(row["id"], row["attempt"], outcome, linked=row["linked"])
        except ProcessLost:
            failure = WORKER_LOST
        except (asyncio.CancelledError, Canceled):
            failure = SHUT_DOWN
        self._settle(held, succeeded, failure)

    def _settle(self, held: Held, succeeded: Succeed | None, failure: Failure | None) -> None:
        self._held.remove(held)
        if not held.taken_away:
            sign = held.context._last_sign
            if sign is not None:
                self._last_signs.append(sign)
            if succeeded is not None:
                self._succeeded.append(succeeded)
            elif failure is not None:
                self._failed.append(Failed(*held.identity, failure, linked=held.linked))
        if not self._held:
            self._idle.set()
        self._wakeups.wake(Topic.WORK)

    def _let_go(self, changes: Changes) -> None:
        """Stop what this process itself has ended: a timeout, a cancel."""
        if self._held.tasks:
            for moved in changes.moved:
                if moved.source is Status.RUNNING:
                    self._held.take_away((moved.task_id, moved.attempt))
                    # A retry is told with the number of the attempt that it leads to.
                    self._held.take_away((moved.task_id, moved.attempt - 1))

    async def settled(self) -> None:
        """Wait until nothing runs."""
        await self._idle.wait()

    async def drain(self) -> None:
        """Claim no more, let functions finish for a while, give back the rest, and write every result."""
        self._claims = False
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._settings.grace_secs
        # The other loops have ended; these keep the leases and the time of what is being finished.
        keeping = [
            asyncio.create_task(run_forever(one, self._wakeups, self._clock, lambda *_: None))
            for one in (self._pulse, self._signs)
        ]
        try:
            await self._wait_for_tasks(give_up_at)
            await self._end_tasks()
            self._give_up()
            await self._hand_in()
            while self.unreported and loop.time() < give_up_at:
                await asyncio.sleep(HAND_IN_SECS)
                await self._hand_in()
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.wait(keeping)
            self._execution.close()
        if self.unreported:
            log.error(
                "results could not be written; their tasks are retried when their leases run out",
                extra={"fields": {"tasks": self.unreported}},
            )

    async def _wait_for_tasks(self, give_up_at: float) -> None:
        """Let functions finish; each hands in its result when it has one."""
        while self._held and (left := give_up_at - asyncio.get_running_loop().time()) > 0:
            self._wakeups.lower(Topic.WORK)
            await self._hand_in()
            if not self._held:
                break
            try:
                async with asyncio.timeout(left):
                    await self._wakeups.wait(Topic.WORK)
            except TimeoutError:
                break

    async def _end_tasks(self) -> None:
        """Cancel functions, and tell those in threads, which only they themselves can end; wait for both a while."""
        for held in self._held:
            in_thread = self._handlers[held.context.kind].mode is Mode.THREAD
            held.tell() if in_thread else held.stop()
        tasks = [held.running for held in self._held if held.running is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_SECS)

    async def _hand_in(self) -> None:
        try:
            await self.run_once()
        except PerdureError as error:
            fields = {"tasks": self.unreported, "error": str(error)}
            log.warning("results could not be written yet", extra={"fields": fields})

    def _give_up(self) -> None:
        """What does not heed its cancellation is given back all the same, and what it returns is not taken."""
        for held in self._held:
            held.taken_away = True
            self._held.remove(held)
            self._failed.append(Failed(*held.identity, SHUT_DOWN))
