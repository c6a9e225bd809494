"""`perdure task show`: one task with everything that a person at three in the morning wants to know."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from perdure.cli.advice import Known, explain, next_steps
from perdure.cli.show import clean, distance, moment, print_table, status_text, untrusted
from perdure.client import Attempt, Delivery, Task
from perdure.domain.durations import show_duration

LONGEST_JSON = 500


def draw_task(known: Known, console: Console) -> None:
    """Print the page."""
    console.print(untrusted(known.task.name, "bold"))
    for name, value in _facts(known):
        console.print(Text(f"  {name:<10} ") + value)
    if known.task.failure_reason:
        _draw_block("Reason", [untrusted_lines(known.task.failure_reason, 4)], console)
    if known.attempts:
        _draw_attempts(known.attempts, console)
    if known.deliveries:
        _draw_deliveries(known.deliveries, console)
    steps = next_steps(known)
    _draw_block("What to do", [Text(step) for step in steps] or [Text("nothing")], console)


def untrusted_lines(text: str, indent: int) -> Text:
    """Several lines that somebody else wrote, all but the first indented, so that none can pass for ours."""
    return Text(clean(text, lines=True).replace("\n", "\n" + " " * indent))


def _facts(known: Known) -> Iterator[tuple[str, Text]]:
    task, now = known.task, known.now
    yield "id", Text(task.id)
    yield "batch", Text(task.batch_id)
    yield "key", untrusted(task.key)
    yield "kind", untrusted(task.kind)
    yield "namespace", untrusted(task.namespace)
    yield "status", status_text(task.status) + Text(f": {explain(known)}")
    if task.next_retry_at is not None:
        yield "next", Text(f"{moment(task.next_retry_at)}, {distance(task.next_retry_at, now)}")
    yield "attempt", Text(_budget(task))
    for name, at in (("created", task.created_at), ("started", task.started_at), ("ended", task.ended_at)):
        if at is not None:
            yield name, Text(f"{moment(at)}, {distance(at, now)}")
    if task.started_at is not None and task.ended_at is not None:
        yield "took", Text(show_duration((task.ended_at - task.started_at).total_seconds()))
    yield "timeout", Text(show_duration(task.timeout))
    if task.priority:
        yield "priority", Text(str(task.priority))
    if task.success or task.failures or task.expected_count is not None:
        expected = "" if task.expected_count is None else f" of {task.expected_count} expected"
        yield "counted", Text(f"{task.success} succeeded, {task.failures} failed{expected}")
    for name, value in (("metadata", task.metadata), ("payload", task.payload), ("result", task.result)):
        if value is not None:
            text = json.dumps(value, ensure_ascii=False)
            yield name, untrusted(text if len(text) <= LONGEST_JSON else text[: LONGEST_JSON - 1] + "…")


def _budget(task: Task) -> str:
    if task.retry is None or not task.retry.get("enabled", True):
        return f"{task.attempt}, no retry policy"
    return f"{task.attempt}, {task.retry_count} of {task.retry['max_retries']} retries used"


def _draw_attempts(attempts: Sequence[Attempt], console: Console) -> None:
    _draw_heading("Attempts", console)
    for attempt in attempts:
        line = Text(f"  {attempt.attempt:<3}") + status_text(attempt.outcome.title())
        console.print(line + Text(f"  {moment(attempt.ended_at)}{_took(attempt)}{_then(attempt)}"))
        if why := _why(attempt):
            console.print(Text("     ") + untrusted_lines(why, 5))


def _took(attempt: Attempt) -> str:
    if attempt.started_at is None:
        return ""
    return f", took {show_duration(max(0.0, (attempt.ended_at - attempt.started_at).total_seconds()))}"


def _why(attempt: Attempt) -> str:
    about = [
        *([attempt.trigger] if attempt.trigger else []),
        *([attempt.error_class] if attempt.error_class else []),
        *([f"HTTP {attempt.http_status}"] if attempt.http_status is not None else []),
        *([attempt.code] if attempt.code else []),
    ]
    words = f"({', '.join(about)})" if about else ""
    return " ".join(part for part in (attempt.message, words) if part)


def _then(attempt: Attempt) -> str:
    if attempt.delay_secs is None:
        return ""
    free = ", free of charge" if attempt.charged is False else ""
    source = f" ({attempt.delay_source}{free})" if attempt.delay_source else ""
    return f", then a wait of {show_duration(attempt.delay_secs)}{source}"


def _draw_deliveries(deliveries: Sequence[Delivery], console: Console) -> None:
    _draw_heading("Deliveries", console)
    print_table(
        ("webhook", "attempt", "status", "requests", "next", "answer"),
        (
            (
                f"{delivery.trigger} {delivery.condition}" if delivery.trigger == "end" else delivery.trigger,
                str(delivery.attempt),
                status_text(delivery.status.title()),
                str(delivery.attempts),
                moment(delivery.next_send_at),
                untrusted(delivery.last_error or _answer(delivery)),
            )
            for delivery in deliveries
        ),
        indent=2,
    )


def _answer(delivery: Delivery) -> str:
    return "" if delivery.last_status is None else f"HTTP {delivery.last_status}"


def _draw_block(heading: str, lines: Sequence[Text], console: Console) -> None:
    _draw_heading(heading, console)
    for line in lines:
        console.print(Text("  ") + line)


def _draw_heading(heading: str, console: Console) -> None:
    console.print()
    console.print(Text(heading, "bold"))
