"""A running engine does everything by itself: no step by hand, only the loops, their wake-ups and the real clock."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure.assemble import Instance, make_instance
from perdure.config import Server, Settings
from tests.engine.definitions import Definition, draft, task, webhook
from tests.engine.driven import HOST_URL, read_task
from tests.support.receiver import Receiver


@pytest.fixture
async def instance(database_url: str) -> AsyncIterator[Instance]:
    """An instance that is running."""
    instance = make_instance(Settings(server=Server(database_url=database_url)), HOST_URL)
    await instance.store.open()
    await instance.engine.start()
    yield instance
    await instance.engine.stop()
    await instance.store.close()


async def submit(instance: Instance, *definitions: Definition) -> list[str]:
    return [stored.id for stored in (await instance.engine.commands.submit(draft(definitions))).tasks]


async def test_a_failure_is_retried_the_end_told_and_the_child_started(instance: Instance, receiver: Receiver) -> None:
    receiver.answer("/work", status=503)
    retry = {"max_retries": 1, "strategy": "fixed_delay", "delay_secs": 0.1}

    parent, child = await submit(
        instance,
        task(
            "a",
            on_start=webhook(receiver.url("/work")),
            completion="response",
            retry=retry,
            on_success=[webhook(receiver.url("/told"))],
        ),
        task("b", "a", on_start=webhook(receiver.url("/child"))),
    )
    await receiver.wait_for(1, "/told")
    await receiver.wait_for(1, "/child")
    await instance.engine.stop()

    assert (await read_task(instance.store, parent)).status.label == "Success"
    assert (await read_task(instance.store, child)).status.label == "Running"
    assert len(receiver.requests_to("/work")) == 2


async def test_a_delayed_task_starts(instance: Instance, receiver: Receiver) -> None:
    await submit(instance, task(on_start=webhook(receiver.url("/late")), delay=0.1))

    await receiver.wait_for(1, "/late")


async def test_a_silent_task_times_out(instance: Instance, receiver: Receiver) -> None:
    (id,) = await submit(
        instance,
        task(
            on_start=webhook(receiver.url("/work")),
            timeout=1,
            on_cancel=[webhook(receiver.url("/cancel"))],
            on_failure=[webhook(receiver.url("/failure"))],
        ),
    )

    await receiver.wait_for(1, "/cancel")
    await receiver.wait_for(1, "/failure")

    assert (await read_task(instance.store, id)).failure_reason == "Timeout"


async def test_counts_are_written(instance: Instance, receiver: Receiver) -> None:
    (id,) = await submit(instance, task(on_start=webhook(receiver.url("/work"))))
    await receiver.wait_for(1)

    await instance.engine.commands.count(id, 3, 1)
    await instance.engine.stop()

    counted = await read_task(instance.store, id)
    assert (counted.success, counted.failures) == (3, 1)
