"""`perdure retries`: what failed and is tried again, and how retries fare."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from perdure.cli.listing import SHOWN, ask_for, collect, tell_about_more
from perdure.cli.options import ConfigFlag, DatabaseFlag, JsonFlag, LimitFlag, StatusFlag, UrlFlag, fail, read_moment
from perdure.cli.show import distance, print_json, print_table, shorten, untrusted
from perdure.cli.target import Target
from perdure.client import RetrySchedule, RetryStats, StrategyStats
from perdure.clock import SystemClock
from perdure.domain.durations import show_duration


def retries(
    status: StatusFlag = None,
    kind: Annotated[str | None, typer.Option(help="Part of the kind.")] = None,
    due_before: Annotated[str | None, typer.Option(help="Due before this time, or within 1h30m.")] = None,
    limit: LimitFlag = SHOWN,
    stats: Annotated[bool, typer.Option("--stats", help="Show how all retries fare instead.")] = False,
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    url: UrlFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """List tasks and batches that failed and have a retry policy, the next one first."""
    target = Target(config, database_url, url, as_json)
    if stats:
        if status or kind or due_before:
            fail("--stats counts all retries; leave --status, --kind and --due-before out.")
        shown = target.run(lambda client: client.retry_stats())
        print_json(shown) if as_json else _draw_stats(shown)
        return
    now = SystemClock().now()
    due = read_moment("--due-before", due_before, now, 1)
    listed = target.run(
        lambda client: collect(client.retries(status=status, kind=kind, due_before=due, limit=ask_for(limit)), limit)
    )
    if as_json:
        print_json(listed.entries)
        return
    if listed.entries:
        print_table(
            ("id", "what", "status", "used", "next", "strategy", "last failure"),
            (
                (
                    Text(retry.target_id),
                    Text("batch") if retry.node_id is None else untrusted(retry.node_id),
                    untrusted(retry.status),
                    f"{retry.current_attempt} of {retry.max_attempts}",
                    distance(retry.scheduled_at, now) if retry.status == "scheduled" else "-",
                    untrusted(retry.retry_strategy),
                    shorten(_last_error(retry)),
                )
                for retry in listed.entries
            ),
        )
    tell_about_more(listed, "retries")


def _last_error(retry: RetrySchedule) -> str | None:
    return retry.error_history[-1].error if retry.error_history else None


def _draw_stats(stats: RetryStats) -> None:
    heads = ("strategy", "waiting", "next 24h", "retrying", "completed", "failed", "exhausted", "succeeded", "wait")
    used = {name: one for name, one in stats.by_strategy.items() if _is_used(one)}
    print_table(heads, [*(_cells(name, one) for name, one in used.items()), _cells("all", stats)])


def _is_used(stats: StrategyStats) -> bool:
    return any((stats.pending, stats.retrying, stats.completed, stats.failed, stats.exhausted))


def _cells(name: str, stats: StrategyStats | RetryStats) -> tuple[Text | str, ...]:
    return (
        untrusted(name),
        str(stats.pending),
        str(stats.scheduled_next_24h),
        str(stats.retrying),
        str(stats.completed),
        str(stats.failed),
        str(stats.exhausted),
        "-" if stats.success_rate is None else f"{stats.success_rate:.1f} %",
        "-" if stats.average_delay_secs is None else show_duration(stats.average_delay_secs),
    )
