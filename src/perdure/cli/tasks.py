"""`perdure task`: finding tasks, seeing one, and acting on it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer
from rich.text import Text

from perdure.cli.advice import CANCELED, FAILURE, PENDING, WAITING, Known, Parent
from perdure.cli.listing import SHOWN, ask_for, collect, tell_about_more
from perdure.cli.options import (
    ConfigFlag,
    DatabaseFlag,
    JsonFlag,
    LimitFlag,
    StatusFlag,
    UrlFlag,
    fail,
    read_moment,
)
from perdure.cli.show import age, clean, console, distance, plain, print_json, print_table, status_text, untrusted
from perdure.cli.target import Target
from perdure.cli.task_page import draw_task
from perdure.client import AsyncClient, Event, Task
from perdure.clock import SystemClock

app = typer.Typer(help="Find tasks, see one, act on it.", no_args_is_help=True)

IdArgument = Annotated[str, typer.Argument(help="The task's id, a UUID.", metavar="ID")]


@app.command("list")
def list_tasks(
    status: StatusFlag = None,
    kind: Annotated[str | None, typer.Option(help="Part of the kind.")] = None,
    name: Annotated[str | None, typer.Option(help="Part of the name.")] = None,
    namespace: Annotated[str | None, typer.Option(help="The whole namespace.")] = None,
    batch: Annotated[str | None, typer.Option("--batch", "--batch-id", help="Only tasks of this batch.")] = None,
    timeout: Annotated[int | None, typer.Option(help="The timeout in seconds.")] = None,
    metadata: Annotated[str | None, typer.Option(help='JSON that the metadata contains: {"customer": 7}.')] = None,
    error_class: Annotated[str | None, typer.Option(help="final, retryable or rate_limited.")] = None,
    due_before: Annotated[str | None, typer.Option(help="Retried before this time, or within 1h30m.")] = None,
    limit: LimitFlag = SHOWN,
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    url: UrlFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """List tasks, the newest first."""
    now = SystemClock().now()
    filters: dict[str, Any] = {
        "status": status,
        "kind": kind,
        "name": name,
        "namespace": namespace,
        "batch_id": batch,
        "timeout": timeout,
        "metadata": None if metadata is None else _read_object("--metadata", metadata),
        "error_class": error_class,
        "due_before": read_moment("--due-before", due_before, now, 1),
    }
    target = Target(config, database_url, url, as_json)
    listed = target.run(lambda client: collect(client.tasks(**filters, limit=ask_for(limit)), limit))
    if as_json:
        print_json(listed.entries)
        return
    if listed.entries:
        print_table(
            ("id", "status", "age", "next", "attempt", "kind", "name"),
            (
                (
                    Text(task.id),
                    status_text(task.status),
                    age(task.created_at, now),
                    "-" if task.next_retry_at is None else distance(task.next_retry_at, now),
                    str(task.attempt),
                    untrusted(task.kind),
                    untrusted(task.name),
                )
                for task in listed.entries
            ),
        )
    tell_about_more(listed, "tasks")


@app.command("show")
def show_task(
    id: IdArgument,
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    url: UrlFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Show a task: its status and why, its attempts and webhooks, and what to do next."""
    target = Target(config, database_url, url, as_json)
    known, events = target.run(lambda client: _ask_everything(client, id, target.flags))
    if as_json:
        lists = {"attempts": known.attempts, "deliveries": known.deliveries, "events": events}
        print_json({**plain(known.task), **plain(lists)})
    else:
        draw_task(known, console())


async def _ask_everything(client: AsyncClient, id: str, flags: str) -> tuple[Known, list[Event]]:
    task = await client.task(id)
    known = Known(
        task,
        await client.attempts(id),
        await client.deliveries(id),
        await _find_parents(client, task),
        [
            pause
            for pause in (await client.pauses() if task.status == PENDING else ())
            if pause.name == (task.kind if pause.scope == "kind" else task.namespace)
        ],
        SystemClock().now(),
        flags,
    )
    return known, await client.events(id)


async def _find_parents(client: AsyncClient, task: Task) -> list[Parent]:
    """The parents that explain why a task has not run; only then is the whole graph worth asking for."""
    ended_unstarted = task.status in (FAILURE, CANCELED) and task.started_at is None
    if task.status != WAITING and not ended_unstarted:
        return []
    dag = await client.dag(task.batch_id)
    links = {link.parent_id: link.condition for link in dag.links if link.child_id == task.id}
    parents = [Parent(one.id, one.name, one.status, links[one.id]) for one in dag.tasks if one.id in links]
    return [parent for parent in parents if parent.status != "Success"] if task.status == WAITING else parents


@app.command("retry")
def retry_task(
    id: IdArgument,
    edit: Annotated[
        str | None,
        typer.Option(help="Change it first: a JSON object with payload, metadata, timeout, on_start or retry."),
    ] = None,
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    url: UrlFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Try a task again now: one that failed, was canceled, is parked, or waits for its retry."""
    edits = {} if edit is None else _read_object("--edit", edit)
    _act(Target(config, database_url, url, as_json), lambda client: client.retry(id, **edits), "Tried again")


@app.command("cancel")
def cancel_task(
    id: IdArgument,
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    url: UrlFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Cancel a task that is not over."""
    _act(Target(config, database_url, url, as_json), lambda client: client.cancel(id), "Canceled")


@app.command("pause")
def pause_task(
    id: IdArgument,
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    url: UrlFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Hold a task where it is."""
    _act(Target(config, database_url, url, as_json), lambda client: client.pause(id), "Paused")


@app.command("resume")
def resume_task(
    id: IdArgument,
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    url: UrlFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Let a paused task go on. A parked one starts a new attempt, with a fresh budget."""
    _act(Target(config, database_url, url, as_json), lambda client: client.resume(id), "Resumed")


@app.command("redrive")
def redrive_delivery(
    id: Annotated[str, typer.Argument(help="The delivery's id, a UUID; `task show` tells it.", metavar="DELIVERY")],
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    url: UrlFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Send an end or cancel webhook that was given up once more. A server does it; this makes it due."""
    delivery = Target(config, database_url, url, as_json).run(lambda client: client.redrive(id))
    if as_json:
        print_json(delivery)
    else:
        trigger = delivery.condition if delivery.trigger == "end" else delivery.trigger
        print(f"Due again: the {clean(trigger)} webhook of task {clean(delivery.task_id)}.")


def _act(target: Target, action: Callable[[AsyncClient], Awaitable[Task]], done: str) -> None:
    task = target.run(action)
    if target.as_json:
        print_json(task)
    else:
        print(f"{done}: {clean(task.name)} is {task.status} now.")


def _read_object(flag: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        fail(f"{flag} must be JSON: {str(error)[:200]}.")
    if not isinstance(value, dict):
        fail(f'{flag} must be a JSON object such as {{"customer": 7}}.')
    return value
