"""`perdure batch`: finding batches, seeing one as a tree, watching it, stopping it, retrying it."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from perdure.cli.listing import SHOWN, ask_for, collect, tell_about_more
from perdure.cli.options import (
    REFUSED,
    ConfigFlag,
    DatabaseFlag,
    JsonFlag,
    LimitFlag,
    StatusFlag,
    UrlFlag,
    read_moment,
)
from perdure.cli.show import (
    age,
    clean,
    console,
    distance,
    moment,
    note,
    plain,
    print_json,
    print_table,
    shorten,
    untrusted,
)
from perdure.cli.target import Target
from perdure.cli.tree import draw_tree
from perdure.cli.watching import describe_counts, ended_well, follow
from perdure.client import AsyncClient, Batch, Dag
from perdure.clock import SystemClock

app = typer.Typer(help="Find batches, see one, watch it, act on it.", no_args_is_help=True)

TREE_LINES = 200
IdArgument = Annotated[str, typer.Argument(help="The batch's id, a UUID.", metavar="ID")]


@app.command("list")
def list_batches(
    status: StatusFlag = None,
    kind: Annotated[str | None, typer.Option(help="Part of the kind of a task.")] = None,
    name: Annotated[str | None, typer.Option(help="Part of the name of the batch or of a task.")] = None,
    created_after: Annotated[str | None, typer.Option(help="Since this time, or since 1h30m ago.")] = None,
    created_before: Annotated[str | None, typer.Option(help="Before this time, or before 1h30m ago.")] = None,
    limit: LimitFlag = SHOWN,
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    url: UrlFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """List batches, the newest first."""
    now = SystemClock().now()
    filters: dict[str, Any] = {
        "status": status,
        "kind": kind,
        "name": name,
        "created_after": read_moment("--created-after", created_after, now, -1),
        "created_before": read_moment("--created-before", created_before, now, -1),
    }
    target = Target(config, database_url, url, as_json)
    listed = target.run(lambda client: collect(client.batches(**filters, limit=ask_for(limit)), limit))
    if as_json:
        print_json(listed.entries)
        return
    if listed.entries:
        print_table(
            ("id", "age", "tasks", "now", "kinds", "name"),
            (
                (
                    Text(batch.batch_id),
                    age(batch.first_created_at, now),
                    str(batch.total_tasks),
                    describe_counts(batch.status_counts),
                    shorten(", ".join(batch.kinds)),
                    untrusted(batch.name),
                )
                for batch in listed.entries
            ),
        )
    tell_about_more(listed, "batches")


@app.command("show")
def show_batch(
    id: IdArgument,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Draw so many tasks at most; 0 for all.")] = TREE_LINES,
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    url: UrlFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Show a batch: how it stands, and its tasks as a tree."""
    batch, dag = Target(config, database_url, url, as_json).run(lambda client: _ask_everything(client, id))
    if as_json:
        print_json({**plain(batch), **plain(dag)})
    else:
        _draw_batch(batch, dag, limit, SystemClock().now(), console())


async def _ask_everything(client: AsyncClient, id: str) -> tuple[Batch, Dag]:
    return await client.batch(id), await client.dag(id)


def _draw_batch(batch: Batch, dag: Dag, limit: int, now: datetime, shown: Console) -> None:
    facts: list[tuple[str, Text]] = [
        ("id", Text(batch.batch_id)),
        ("namespace", untrusted(batch.namespace)),
        ("created", Text(f"{moment(batch.created_at)}, {distance(batch.created_at, now)}")),
        ("tasks", Text(f"{batch.total_tasks}: ") + describe_counts(batch.status_counts)),
    ]
    if batch.total_success or batch.total_failures or batch.total_expected is not None:
        expected = "" if batch.total_expected is None else f" of {batch.total_expected} expected"
        facts.append(("counted", Text(f"{batch.total_success} succeeded, {batch.total_failures} failed{expected}")))
    if batch.retry_of is not None:
        facts.append(("again", Text(f"repetition {batch.attempt} of {batch.retry_of}")))
    if batch.retry_state is not None:
        facts.append(("whole", Text(f"its own retry policy: {batch.retry_state}")))
    if batch.next_retry_at is not None:
        facts.append(("next", Text(f"{moment(batch.next_retry_at)}, {distance(batch.next_retry_at, now)}")))
    shown.print(untrusted(batch.name or "A batch without a name", "bold"))
    for name, value in facts:
        shown.print(Text(f"  {name:<10} ") + value)
    shown.print()
    for line in islice(draw_tree(dag, ascii_only=shown.options.ascii_only), limit or None):
        shown.print(line)
    if limit and len(dag.tasks) > limit:
        note(f"There are {len(dag.tasks) - limit} more tasks; --limit 0 draws all.")


@app.command("stop")
def stop_batch(
    id: IdArgument,
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    url: UrlFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Cancel every task of a batch that is not over. May be repeated."""
    stopped = Target(config, database_url, url, as_json).run(lambda client: client.stop_batch(id))
    if as_json:
        print_json(stopped)
        return
    members: dict[str, Any] = plain(stopped)
    canceled = sum(count for name, count in members.items() if name.startswith("canceled_"))
    print(f"Stopped: {canceled} canceled, {stopped.already_terminal} were over already.")


@app.command("retry")
def retry_batch(
    id: IdArgument,
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    url: UrlFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Try everything again that failed in a batch, in place."""
    retried = Target(config, database_url, url, as_json).run(lambda client: client.retry_batch(id))
    if as_json:
        print_json(retried)
    else:
        count = plain(retried)["retried_count"]
        again = "1 task lives again." if count == 1 else f"{count} tasks live again."
        print(again if count else "Nothing in it has failed.")


@app.command("watch")
def watch_batch(
    id: IdArgument,
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    url: UrlFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Follow a batch until it is over. The exit code is 1 if a task failed or was canceled."""
    target = Target(config, database_url, url, as_json)
    batch = target.run(lambda client: follow(client.watch(id), None if as_json else Console(highlight=False)))
    if as_json:
        print_json(batch)
    else:
        print(f"{clean(batch.name or 'The batch')} is over.")
    if not ended_well(batch):
        raise typer.Exit(REFUSED)
