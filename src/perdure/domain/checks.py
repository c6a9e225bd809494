"""The rules that a submission or a report must keep. Each check adds every broken rule to a list of problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from perdure.domain.drafts import (
    BatchDraft,
    CountDraft,
    DependencyDraft,
    MatcherDraft,
    ReportDraft,
    RuleDraft,
    TaskDraft,
)
from perdure.domain.durations import parse_duration
from perdure.domain.errors import Problem
from perdure.domain.graph import find_cycle
from perdure.domain.model import Completion, Condition, ErrorClass
from perdure.domain.rules import Matcher, Measure, Rule
from perdure.domain.states import VALUES, Status

NAME_LENGTH = 255
KIND_LENGTH = 100
NAMESPACE_LENGTH = 100
KEY_LENGTH = 255
REASON_BYTES = 4096
METADATA_BYTES = 64 * 1024
PAYLOAD_BYTES = 256 * 1024
JSON_DEPTH = 100
TASKS_PER_BATCH = 100_000
DEPENDENCIES_PER_TASK = 10_000
RULES_PER_TASK = 20
FIELDS_PER_MATCHER = 20
ACTIONS_PER_TRIGGER = 20
TIMEOUT_RANGE = (1, 86_400)
PRIORITY_RANGE = (-1000, 1000)
DEFAULT_TIMEOUT = 60
DEFAULT_NAMESPACE = "default"
LARGEST_COUNT = 2**31 - 1
LONGEST_DELAY_SECS = 10 * 366 * 86_400.0
LARGEST_LIMIT = 1_000_000_000
SHOWN_CYCLE = 20

Problems = list[Problem]


def check_text(problems: Problems, field: str, text: str, longest: int, *, required: bool = True) -> None:
    if not text.strip():
        if required:
            problems.append(Problem(field, "must not be empty"))
        return
    if len(text) > longest:
        problems.append(Problem(field, f"must have at most {longest} characters, has {len(text)}"))
    if "\x00" in text:
        problems.append(Problem(field, "must not contain the NUL character"))


def check_range(problems: Problems, field: str, number: int | None, lowest: int, highest: int) -> None:
    if number is not None and not lowest <= number <= highest:
        problems.append(Problem(field, f"must be between {lowest} and {highest}, is {number}"[:200]))


def check_batch(draft: BatchDraft) -> Problems:
    """Everything about a batch that can be told from its own words: lengths, ranges, names and wiring."""
    problems: Problems = []
    if draft.name is not None:
        check_text(problems, "name", draft.name, NAME_LENGTH)
    if draft.namespace is not None:
        check_text(problems, "namespace", draft.namespace, NAMESPACE_LENGTH)
    if len(draft.tasks) > TASKS_PER_BATCH:
        problems.append(Problem("tasks", f"must be at most {TASKS_PER_BATCH}, are {len(draft.tasks)}; split the batch"))
        return problems
    for position, task in enumerate(draft.tasks):
        check_task(problems, f"tasks[{position}]", task)
    check_wiring(problems, draft.tasks)
    return problems


def check_task(problems: Problems, path: str, task: TaskDraft) -> None:
    check_text(problems, f"{path}.id", task.id, KEY_LENGTH)
    check_text(problems, f"{path}.name", task.name, NAME_LENGTH)
    check_text(problems, f"{path}.kind", task.kind, KIND_LENGTH)
    check_range(problems, f"{path}.timeout", task.timeout, *TIMEOUT_RANGE)
    check_range(problems, f"{path}.priority", task.priority, *PRIORITY_RANGE)
    check_range(problems, f"{path}.expected_count", task.expected_count, 0, LARGEST_COUNT)
    if task.completion is not None and task.completion not in set(Completion):
        problems.append(Problem(f"{path}.completion", "must be 'callback' or 'response'"))
    if task.completion == Completion.RESPONSE and task.on_start is None:
        problems.append(
            Problem(f"{path}.completion", "'response' needs an on_start webhook whose answer is the result")
        )
    for trigger in ("on_success", "on_failure", "on_cancel"):
        actions = getattr(task, trigger)
        if actions is not None and len(actions) > ACTIONS_PER_TRIGGER:
            problems.append(Problem(f"{path}.{trigger}", f"must be at most {ACTIONS_PER_TRIGGER} actions"))
    if task.run_at is not None and task.delay is not None:
        problems.append(Problem(f"{path}.delay", "cannot stand beside run_at; give one of them"))
    if task.rules:
        parse_rules(problems, f"{path}.rules", task.rules, task.metadata or {}, task.expected_count)
    if task.dedupe_strategy:
        check_dedupe(problems, f"{path}.dedupe_strategy", task.dedupe_strategy, task.metadata or {})


def start_moment(problems: Problems, path: str, task: TaskDraft, now: datetime) -> datetime | None:
    """The moment before which the task may not start, if it names one."""
    if task.run_at is not None:
        try:
            moment = datetime.fromisoformat(task.run_at)
        except ValueError:
            problems.append(Problem(f"{path}.run_at", "must be an RFC 3339 time such as 2030-01-31T12:00:00Z"))
            return None
        if moment.tzinfo is None:
            problems.append(Problem(f"{path}.run_at", "must name its time zone, for example by a final Z"))
            return None
        try:
            return moment.astimezone(UTC)
        except OverflowError:
            problems.append(Problem(f"{path}.run_at", "is out of range"))
            return None
    if task.delay is not None:
        try:
            seconds = parse_duration(task.delay)
        except ValueError as error:
            problems.append(Problem(f"{path}.delay", str(error)))
            return None
        if seconds > LONGEST_DELAY_SECS:
            problems.append(Problem(f"{path}.delay", "must be at most ten years"))
            return None
        return seconds_after(now, seconds) if seconds > 0 else None
    return None


def seconds_after(moment: datetime, seconds: float) -> datetime:
    return datetime.fromtimestamp(moment.timestamp() + seconds, UTC)


def condition_of(dependency: DependencyDraft) -> Condition:
    """The condition that a checked dependency states."""
    if dependency.condition is not None:
        return Condition(dependency.condition)
    return Condition.ALWAYS if dependency.requires_success is False else Condition.ON_SUCCESS


def check_wiring(problems: Problems, tasks: Sequence[TaskDraft]) -> None:
    """Ids are unique, dependencies known and without a cycle."""
    positions: dict[str, int] = {}
    for position, task in enumerate(tasks):
        first = positions.setdefault(task.id, position)
        if first != position:
            problems.append(
                Problem(f"tasks[{position}].id", f"duplicate id {task.id[:80]!r}, already used by tasks[{first}]")
            )
    before = len(problems)
    parents: list[list[int]] = []
    for position, task in enumerate(tasks):
        needed = _check_dependencies(problems, position, task, positions) if task.dependencies else []
        parents.append(needed)
    if len(problems) > before:
        return
    cycle = find_cycle(parents)
    if cycle is not None:
        names = [tasks[position].id[:80] for position in cycle]
        if len(names) > SHOWN_CYCLE:
            names = [*names[: SHOWN_CYCLE - 2], "…", names[-1]]
        problems.append(Problem(f"tasks[{cycle[0]}].dependencies", f"dependencies form a cycle: {' -> '.join(names)}"))


def _check_dependencies(problems: Problems, position: int, task: TaskDraft, positions: Mapping[str, int]) -> list[int]:
    path = f"tasks[{position}].dependencies"
    dependencies = task.dependencies or []
    if len(dependencies) > DEPENDENCIES_PER_TASK:
        problems.append(Problem(path, f"must be at most {DEPENDENCIES_PER_TASK}, are {len(dependencies)}"))
        return []
    needed: dict[str, int] = {}
    for index, dependency in enumerate(dependencies):
        where = f"{path}[{index}]"
        _check_condition(problems, where, dependency)
        shown = repr(dependency.id[:80])
        if dependency.id == task.id:
            problems.append(Problem(f"{where}.id", f"task {shown} cannot depend on itself"))
        elif dependency.id not in positions:
            problems.append(Problem(f"{where}.id", f"unknown dependency {shown}; no task of this batch has that id"))
        elif dependency.id in needed:
            problems.append(Problem(f"{where}.id", f"duplicate dependency {shown}"))
        else:
            needed[dependency.id] = positions[dependency.id]
    return list(needed.values())


def _check_condition(problems: Problems, where: str, dependency: DependencyDraft) -> None:
    if dependency.condition is None:
        return
    if dependency.condition not in set(Condition):
        problems.append(Problem(f"{where}.condition", "must be 'on_success', 'always' or 'on_failure'"))
    elif dependency.requires_success is not None:
        implied = Condition.ON_SUCCESS if dependency.requires_success else Condition.ALWAYS
        if dependency.condition != implied:
            problems.append(
                Problem(f"{where}.condition", f"contradicts requires_success, which means {implied.value!r}")
            )


def parse_rules(
    problems: Problems,
    path: str,
    drafts: Sequence[RuleDraft],
    metadata: Mapping[str, Any],
    expected_count: int | None,
) -> list[Rule]:
    """The rules of a task whose metadata and expected count are given; broken ones become problems."""
    if len(drafts) > RULES_PER_TASK:
        problems.append(Problem(path, f"must be at most {RULES_PER_TASK}"))
        return []
    rules = []
    for index, draft in enumerate(drafts):
        where = f"{path}[{index}]"
        before = len(problems)
        measure, limit = _check_bound(problems, where, draft)
        matcher = _check_matcher(problems, f"{where}.matcher", draft.matcher, metadata)
        if matcher.status != Status.RUNNING.label:
            problems.append(Problem(f"{where}.matcher.status", "must be 'Running'"))
        if measure is Measure.WORK and expected_count is None:
            problems.append(Problem(where, "a Capacity rule needs expected_count on the task"))
        if len(problems) == before:
            rules.append(Rule(measure, matcher, limit))
    return rules


def _check_bound(problems: Problems, where: str, draft: RuleDraft) -> tuple[Measure, int]:
    given = {
        "max_concurrency": draft.max_concurrency,
        "max_concurency": draft.max_concurency,
        "max_capacity": draft.max_capacity,
    }
    named = {name: value for name, value in given.items() if value is not None}
    wanted = {"Concurrency": Measure.TASKS, "Concurency": Measure.TASKS, "Capacity": Measure.WORK}
    if draft.type is not None and draft.type not in wanted:
        problems.append(Problem(f"{where}.type", "must be 'Concurrency' or 'Capacity'"))
        return Measure.TASKS, 1
    if len(named) != 1:
        problems.append(Problem(where, "must have exactly one of max_concurrency and max_capacity"))
        return Measure.TASKS, 1
    ((name, limit),) = named.items()
    measure = Measure.WORK if name == "max_capacity" else Measure.TASKS
    if draft.type is not None and wanted[draft.type] is not measure:
        problems.append(Problem(f"{where}.{name}", f"does not belong to a rule of type {draft.type}"))
    check_range(problems, f"{where}.{name}", limit, 1, LARGEST_LIMIT)
    return measure, limit


def _check_matcher(problems: Problems, where: str, draft: MatcherDraft, metadata: Mapping[str, Any]) -> Matcher:
    check_text(problems, f"{where}.kind", draft.kind, KIND_LENGTH)
    fields = draft.fields or []
    if len(fields) > FIELDS_PER_MATCHER:
        problems.append(Problem(f"{where}.fields", f"must be at most {FIELDS_PER_MATCHER}"))
    for name in fields[:FIELDS_PER_MATCHER]:
        check_text(problems, f"{where}.fields", name, NAME_LENGTH)
        if name not in metadata:
            problems.append(Problem(f"{where}.fields", f"the task's metadata has no field {name[:80]!r}"))
    return Matcher(draft.kind, draft.status or Status.RUNNING.label, tuple(fields))


def check_dedupe(problems: Problems, path: str, drafts: Iterable[MatcherDraft], metadata: Mapping[str, Any]) -> None:
    for index, draft in enumerate(drafts):
        where = f"{path}[{index}]"
        if index >= RULES_PER_TASK:
            problems.append(Problem(path, f"must be at most {RULES_PER_TASK}"))
            return
        _check_matcher(problems, where, draft, metadata)
        if draft.status is None or draft.status not in VALUES:
            problems.append(Problem(f"{where}.status", f"must be one of {', '.join(VALUES)}"))


def check_report(draft: ReportDraft) -> Problems:
    """Whether a report about a task makes sense by itself."""
    problems: Problems = []
    if draft.status is not None and draft.status not in (Status.SUCCESS.label, Status.FAILURE.label):
        problems.append(Problem("status", "must be 'Success' or 'Failure'"))
    if draft.status == Status.FAILURE.label and not (draft.failure_reason or "").strip():
        problems.append(Problem("failure_reason", "is required when status is 'Failure'"))
    if draft.failure_reason is not None and "\x00" in draft.failure_reason:
        problems.append(Problem("failure_reason", "must not contain the NUL character"))
    if draft.error_class is not None and draft.error_class not in set(ErrorClass):
        problems.append(Problem("error_class", "must be 'final', 'retryable' or 'rate_limited'"))
    if draft.code is not None:
        check_text(problems, "code", draft.code, NAME_LENGTH)
    check_range(problems, "new_success", draft.new_success, 0, LARGEST_COUNT)
    check_range(problems, "new_failures", draft.new_failures, 0, LARGEST_COUNT)
    check_range(problems, "expected_count", draft.expected_count, 0, LARGEST_COUNT)
    check_range(problems, "priority", draft.priority, *PRIORITY_RANGE)
    check_range(problems, "attempt", draft.attempt, 0, LARGEST_COUNT)
    return problems


def check_count(draft: CountDraft) -> Problems:
    """Whether a progress report counts anything."""
    problems: Problems = []
    check_range(problems, "new_success", draft.new_success, 0, LARGEST_COUNT)
    check_range(problems, "new_failures", draft.new_failures, 0, LARGEST_COUNT)
    if not problems and not draft.new_success and not draft.new_failures:
        problems.append(Problem("new_success", "give new_success or new_failures above zero"))
    return problems


def clip(text: str, most_bytes: int = REASON_BYTES) -> str:
    """`text` without NUL, cut at a character so that it has at most `most_bytes` bytes of UTF-8."""
    encoded = text.replace("\x00", "").encode("utf-8", "replace")
    return encoded[:most_bytes].decode("utf-8", "ignore")
