"""What a function raises, and what it means for a retry."""

from __future__ import annotations

import asyncio
import math
import sys
from datetime import timedelta
from typing import Any

import pytest

from perdure import Context, Final, Perdure, Retry, Retryable, RetryAfter
from perdure.domain.checks import PAYLOAD_BYTES
from perdure.domain.drafts import BatchDraft, TaskDraft
from perdure.domain.model import ErrorClass
from perdure.domain.states import Status
from perdure.store.changes import Row
from tests.worker.workshop import MakeWorkshop, Workshop

TEN_SECONDS = Retry.fixed(10, max_retries=3)


class Declined(Exception):
    def __init__(self, order: int, reason: str) -> None:
        super().__init__(f"order {order}: {reason}")


class CardDeclined(Declined):
    pass


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Busy(Retryable):
    """The other side has no time."""


class Closed(Final):
    def __init__(self, door: int) -> None:
        self.door = door


async def attempt(shop: Workshop, id: str) -> Row:
    """The one attempt that there was."""
    (found,) = await shop.attempts(id)
    return found


async def test_an_exception_fails_the_task_and_says_what_and_where(app: Perdure, make_workshop: MakeWorkshop) -> None:
    @app.task
    async def charge(order: int) -> None:
        raise CardDeclined(order, "no money")

    shop = await make_workshop()
    id = await shop.hand_in(charge, 7)

    await shop.work()

    task = await shop.task(id)
    assert (task.status, task.error_class) == (Status.FAILURE, ErrorClass.RETRYABLE)
    assert (task.failure_reason or "").startswith("CardDeclined: order 7: no money (test_failures.py:")
    assert (task.failure_reason or "").endswith(" in charge)")
    found = await attempt(shop, id)
    assert (found["outcome"], found["trigger"], found["code"]) == ("failure", "explicit", "CardDeclined")
    assert found["message"] == task.failure_reason


@pytest.mark.parametrize("plain", [True, False], ids=["thread", "loop"])
async def test_a_failure_is_retried_by_the_policy(app: Perdure, make_workshop: MakeWorkshop, plain: bool) -> None:
    attempts: list[int] = []

    def flaky(ctx: Context) -> str:
        attempts.append(ctx.attempt)
        if ctx.attempt < 2:
            raise ConnectionError
        return "done"

    async def flaky_async(ctx: Context) -> str:
        return flaky(ctx)

    task = app.task(kind="flaky", retry=TEN_SECONDS)(flaky if plain else flaky_async)
    shop = await make_workshop()
    id = await shop.hand_in(task)

    await shop.work()
    assert await shop.status(id) == "RetryPending"
    await shop.pass_time(9)
    await shop.work()
    assert attempts == [0]
    for _ in range(2):
        await shop.pass_time(10)
        await shop.work()

    assert attempts == [0, 1, 2]
    done = await shop.task(id)
    assert (done.status, done.result, done.retry_count) == (Status.SUCCESS, '"done"', 2)


async def test_a_final_error_is_not_retried(app: Perdure, make_workshop: MakeWorkshop) -> None:
    @app.task(retry=TEN_SECONDS)
    async def charge() -> None:
        raise Final("the card is stolen", code="stolen")

    shop = await make_workshop()
    id = await shop.hand_in(charge)

    await shop.work()

    task = await shop.task(id)
    assert (task.status, task.error_class, task.failure_reason) == (Status.FAILURE, "final", "the card is stolen")
    assert (await attempt(shop, id))["code"] == "stolen"


async def test_a_wait_that_is_asked_for_is_granted_and_costs_nothing(app: Perdure, make_workshop: MakeWorkshop) -> None:
    @app.task(retry=TEN_SECONDS)
    async def crawl() -> None:
        raise RetryAfter("2m", "slow down")

    shop = await make_workshop()
    id = await shop.hand_in(crawl)

    await shop.work()

    task = await shop.task(id)
    assert (task.status, task.attempt, task.retry_count) == (Status.RETRY_PENDING, 1, 0)
    assert task.next_retry_at == shop.clock.now() + timedelta(seconds=120)
    found = await attempt(shop, id)
    assert (found["error_class"], found["delay_source"], found["charged"]) == ("rate_limited", "server", False)
    assert (found["message"], found["code"]) == ("slow down", "RetryAfter")


async def test_an_error_may_carry_a_code_that_the_policy_names(app: Perdure, make_workshop: MakeWorkshop) -> None:
    @app.task(retry=Retry.fixed(10, max_retries=3, retry_on=["busy"]))
    async def call(code: str) -> None:
        raise Retryable("not now", code=code)

    shop = await make_workshop()
    ids = {code: await shop.hand_in(call, code) for code in ("busy", "broken")}

    await shop.work()

    assert await shop.statuses(ids) == {"busy": "RetryPending", "broken": "Failure"}
    assert (await attempt(shop, ids["busy"]))["code"] == "busy"


@pytest.mark.parametrize(
    ("policy", "raised", "status"),
    [
        ({"retry_on": [ConnectionError]}, ConnectionError(), "RetryPending"),
        ({"retry_on": [ConnectionError]}, BrokenPipeError(), "RetryPending"),
        ({"retry_on": [OSError]}, BrokenPipeError(), "RetryPending"),
        ({"retry_on": ["OSError"]}, BrokenPipeError(), "RetryPending"),
        ({"retry_on": [ConnectionError]}, ValueError(), "Failure"),
        ({"ignore": [Declined]}, CardDeclined(7, "no money"), "Failure"),
        ({"ignore": [CardDeclined]}, Declined(7, "no money"), "RetryPending"),
        # The nearest class that is named decides.
        ({"retry_on": [OSError], "ignore": [BrokenPipeError]}, BrokenPipeError(), "Failure"),
        ({"retry_on": [OSError], "ignore": [BrokenPipeError]}, ConnectionResetError(), "RetryPending"),
        ({"retry_on": [BrokenPipeError], "ignore": [OSError]}, BrokenPipeError(), "RetryPending"),
        ({"retry_on": [Retryable]}, Busy(), "RetryPending"),
        ({"ignore": [Retryable]}, Busy(code="later"), "Failure"),
        ({"ignore": ["later"]}, Busy(code="later"), "Failure"),
        # What is final is retried only if it is named.
        ({"retry_on": [Final]}, Closed(1), "RetryPending"),
        ({"ignore": [ValueError]}, Closed(1), "Failure"),
    ],
)
async def test_exceptions_are_named_by_their_class_or_one_above_it(
    app: Perdure, make_workshop: MakeWorkshop, policy: dict[str, Any], raised: Exception, status: str
) -> None:
    @app.task(retry=Retry.fixed(10, max_retries=3, **policy))
    async def call() -> None:
        raise raised

    shop = await make_workshop()
    id = await shop.hand_in(call)

    await shop.work()

    assert await shop.status(id) == status
    expected = getattr(raised, "code", None) or type(raised).__name__
    assert (await attempt(shop, id))["code"] == expected


async def test_the_policy_of_the_task_counts_and_not_that_of_the_function(
    app: Perdure, make_workshop: MakeWorkshop
) -> None:
    @app.task(retry=TEN_SECONDS)
    async def call() -> None:
        raise BrokenPipeError

    shop = await make_workshop()
    plain = {"strategy": "fixed_delay", "delay_secs": 10, "max_retries": 1}
    ids = {
        "ignored": await shop.hand_in(call, retry=Retry.fixed(10, max_retries=1, ignore=[OSError])),
        "named": await shop.hand_in(call, retry={**plain, "retry_on": ["ConnectionError"]}),
        "other": await shop.hand_in(call, retry={**plain, "retry_on": ["ValueError"]}),
    }

    await shop.work()

    assert await shop.statuses(ids) == {"ignored": "Failure", "named": "RetryPending", "other": "Failure"}


async def test_the_configuration_classifies_exceptions(app: Perdure, make_workshop: MakeWorkshop) -> None:
    @app.task(retry=TEN_SECONDS)
    async def call() -> None:
        raise CardDeclined(7, "no money")

    shop = await make_workshop(classification={"Declined": "final"})
    id = await shop.hand_in(call)

    await shop.work()

    assert await shop.status(id) == "Failure"
    found = await attempt(shop, id)
    assert (found["error_class"], found["code"]) == ("final", "CardDeclined")


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (Unspeakable(), "Unspeakable", "Unspeakable: a Unspeakable that cannot be shown"),
        (Closed(3), "Closed", "3"),
        (Final(ValueError("x")), "Final", "x"),  # type: ignore[arg-type]  # what people write
        (Retryable("later", code=503), "503", "later"),  # type: ignore[arg-type]
        (Retryable("a\x00b", code="c\x00d"), "cd", "ab"),
        (ValueError("\ud800 and \x00"), "ValueError", "ValueError: ? and "),
        (ValueError("ü" * 5000), "ValueError", "ValueError: üüü"),
        (Busy(), "Busy", "The other side has no time."),
        (SystemExit(3), "SystemExit", "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError", "CancelledError"),
        (StopIteration(), "StopIteration", "StopIteration"),
        (KeyboardInterrupt(), "KeyboardInterrupt", "KeyboardInterrupt"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
async def test_whatever_is_raised_becomes_a_failure(
    app: Perdure, make_workshop: MakeWorkshop, raised: BaseException, code: str, message: str
) -> None:
    @app.task
    def in_thread() -> None:
        raise raised

    shop = await make_workshop()
    id = await shop.hand_in(in_thread)

    await shop.work()

    assert await shop.status(id) == "Failure"
    found = await attempt(shop, id)
    assert (found["trigger"], found["code"]) == ("explicit", code)
    assert found["message"].startswith(message)
    assert len(found["message"].encode()) <= 4096
    assert len(shop.hands.held) == 0


@pytest.mark.parametrize(
    "raised", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), StopIteration(), Unspeakable()]
)
async def test_what_an_async_function_raises_does_not_end_the_worker(
    app: Perdure, make_workshop: MakeWorkshop, raised: BaseException
) -> None:
    @app.task
    async def in_loop() -> None:
        raise raised

    @app.task
    async def next_one() -> None: ...

    shop = await make_workshop()
    ids = {"first": await shop.hand_in(in_loop), "next": await shop.hand_in(next_one)}

    await shop.work()

    assert await shop.statuses(ids) == {"first": "Failure", "next": "Success"}
    assert (await attempt(shop, ids["first"]))["trigger"] == "explicit"


async def test_leaving_the_program_is_a_failure_of_the_task_alone(app: Perdure, make_workshop: MakeWorkshop) -> None:
    @app.task
    async def leave() -> None:
        sys.exit("enough")

    shop = await make_workshop()
    id = await shop.hand_in(leave)

    await shop.work()

    assert ((await shop.task(id)).failure_reason or "").startswith("SystemExit: enough (")


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        ({"order": "seven"}, "order: Expected `int`, got `str`"),
        ({"order": 7, "color": "red"}, "the function takes no color"),
        ({}, "the function needs order"),
        ([7], "the payload must be an object with a member for each argument"),
        (None, "the function needs order"),
    ],
)
async def test_arguments_that_do_not_fit_are_a_final_failure(
    app: Perdure, make_workshop: MakeWorkshop, payload: Any, complaint: str
) -> None:
    calls: list[int] = []

    @app.task
    async def charge(order: int) -> None:
        calls.append(order)

    shop = await make_workshop()
    draft = TaskDraft("a", "a", "charge", payload=payload, retry=TEN_SECONDS.members)
    id = (await shop.commands.submit(BatchDraft([draft]))).tasks[0].id

    await shop.work()

    assert calls == []
    task = await shop.task(id)
    assert (task.status, task.error_class) == (Status.FAILURE, "final")
    assert task.failure_reason == f"the arguments do not fit: {complaint}"
    assert (await attempt(shop, id))["code"] == "invalid_arguments"


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        (object(), "object cannot be written as JSON"),
        ("x" * PAYLOAD_BYTES, "must have at most 256 KiB"),
        ("a\x00b", "must not contain the NUL character"),
        (_nested(200), "must be nested at most 100 deep"),
        (_nested(100_000), "cannot be stored"),
        ("\ud800", "surrogates not allowed"),
        ({1, 2, object()}, "object cannot be written as JSON"),
        ([1.5, math.nan], "JSON has no nan"),
    ],
    ids=["object", "large", "nul", "deep", "very deep", "surrogate", "set", "nan"],
)
@pytest.mark.parametrize("plain", [True, False], ids=["thread", "loop"])
async def test_a_result_that_cannot_be_kept_is_a_final_failure(
    app: Perdure, make_workshop: MakeWorkshop, result: Any, complaint: str, plain: bool
) -> None:
    def make() -> Any:
        return result

    async def make_async() -> Any:
        return result

    task = app.task(kind="make", retry=TEN_SECONDS)(make if plain else make_async)
    shop = await make_workshop()
    id = await shop.hand_in(task)

    await shop.work()

    ended = await shop.task(id)
    assert (ended.status, ended.error_class, ended.result) == (Status.FAILURE, "final", None)
    assert complaint in (ended.failure_reason or "")
    assert (await attempt(shop, id))["code"] == "invalid_result"


async def test_a_result_of_another_type_than_the_function_says_is_a_final_failure(
    app: Perdure, make_workshop: MakeWorkshop
) -> None:
    @app.task(retry=TEN_SECONDS)
    async def count(result: Any) -> int:
        return result  # type: ignore[no-any-return]

    shop = await make_workshop()
    ids = {text: await shop.hand_in(count, value) for text, value in (("text", "7"), ("none", None), ("number", 7))}

    await shop.work()

    assert await shop.statuses(ids) == {"text": "Failure", "none": "Failure", "number": "Success"}
    ended = await shop.task(ids["text"])
    assert (ended.error_class, ended.result) == ("final", None)
    assert ended.failure_reason == "the result cannot be stored: Expected `int`, got `str`"
    assert (await attempt(shop, ids["none"]))["code"] == "invalid_result"


async def test_a_result_that_the_database_refuses_fails_its_task_and_no_other(
    app: Perdure, make_workshop: MakeWorkshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is known that passes our checks and not the database's, but one bad row must not stop a worker."""

    @app.task(retry=TEN_SECONDS)
    async def odd() -> None: ...

    @app.task
    async def even() -> int:
        return 2

    shop = await make_workshop()
    write = shop.instance.store.write

    async def refuse_odd(work: Any, **options: Any) -> Any:
        told = getattr(work, "keywords", {}).get("told")
        if told is not None and any(one.result is None for one in told.succeeded):
            raise ValueError("what an odd result")
        return await write(work, **options)

    monkeypatch.setattr(shop.instance.store, "write", refuse_odd)
    ids = {"odd": await shop.hand_in(odd), "even": await shop.hand_in(even)}

    await shop.work()

    assert await shop.statuses(ids) == {"odd": "Failure", "even": "Success"}
    found = await attempt(shop, ids["odd"])
    assert (found["error_class"], found["code"]) == ("final", "invalid_result")
