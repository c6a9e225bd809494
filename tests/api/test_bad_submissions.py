"""Submissions that break a rule: 400, every problem named, nothing created."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.api.client import Answered, Client
from tests.api.drafts import after, count_tasks, task, webhook

MATCHER = {"kind": "test", "status": "Running", "fields": ["site"]}
KIB = 1024


def refused(answered: Answered) -> list[str]:
    assert answered.status == 400, answered.body
    assert re.fullmatch(r"[0-9a-f-]{36}", answered.json["batch_id"])
    assert answered.json["type"] == "urn:perdure:problem:invalid"
    return answered.details


MISTYPED: list[tuple[Any, list[str]]] = [
    ({}, ["tasks: must be an array, is an object"]),
    ("x", ["tasks: must be an array, is text"]),
    (None, ["tasks: is required"]),
    ([None], ["tasks[0]: must be an object, is null"]),
    ([1], ["tasks[0]: must be an object, is a number"]),
    ([{}], ["tasks[0].id: is required", "tasks[0].name: is required", "tasks[0].kind: is required"]),
    ([task(name=None)], ["tasks[0].name: is required"]),
    ([task(id=7)], ["tasks[0].id: must be text, is a number"]),
    ([task(timeout="60")], ["tasks[0].timeout: must be a whole number, is text"]),
    ([task(timeout=60.5)], ["tasks[0].timeout: must be a whole number, is 60.5"]),
    ([task(timeout=True)], ["tasks[0].timeout: must be a whole number, is true"]),
    ([task(dead_end_barrier=1)], ["tasks[0].dead_end_barrier: must be true or false, is a number"]),
    ([task(metadata=[])], ["tasks[0].metadata: must be an object, is an array"]),
    ([task(metadata="{}")], ["tasks[0].metadata: must be an object, is text"]),
    ([task(on_start=[])], ["tasks[0].on_start: must be an object, is an array"]),
    ([task(on_start={})], ["tasks[0].on_start.params: is required"]),
    ([task(on_success=webhook())], ["tasks[0].on_success: must be an array, is an object"]),
    ([task(on_cancel=[{"params": {"url": 1}}])], ["tasks[0].on_cancel[0].params.url: must be text, is a number"]),
    (
        [task(on_start=webhook(headers={"a": 1, "b": None}))],
        [
            "tasks[0].on_start.params.headers.a: must be text, is a number",
            "tasks[0].on_start.params.headers.b: must be text, is null",
        ],
    ),
    ([task(dependencies=["a"])], ["tasks[0].dependencies[0]: must be an object, is text"]),
    ([task(dependencies=[{}])], ["tasks[0].dependencies[0].id: is required"]),
    ([task(rules=[{"max_concurrency": 1}])], ["tasks[0].rules[0].matcher: is required"]),
    ([task(rules=[{"matcher": {"fields": [1]}}])], ["tasks[0].rules[0].matcher.kind: is required",
                                                   "tasks[0].rules[0].matcher.fields[0]: must be text, is a number"]),
    ([task(retry=[1])], ["tasks[0].retry: must be an object or text, is an array"]),
    ([task(delay=False)], ["tasks[0].delay: must be text or a whole number or a number, is false"]),
    ([task(run_at=1)], ["tasks[0].run_at: must be text, is a number"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "details"), MISTYPED)
async def test_mistyped_members_are_named(client: Client, body: Any, details: list[str]) -> None:
    assert refused(await client.post("/task", body)) == details
    assert await count_tasks(client) == 0


BROKEN: list[tuple[list[dict[str, Any]], str]] = [
    ([task(id=" ")], "tasks[0].id: must not be empty"),
    ([task(name="")], "tasks[0].name: must not be empty"),
    ([task(name="\t\n ")], "tasks[0].name: must not be empty"),
    ([task(kind=" ")], "tasks[0].kind: must not be empty"),
    ([task(name="x" * 256)], "tasks[0].name: must have at most 255 characters, has 256"),
    ([task(kind="x" * 101)], "tasks[0].kind: must have at most 100 characters, has 101"),
    ([task(name="a\x00b")], "tasks[0].name: must not contain the NUL character"),
    ([task(id="a\x00b", name="n")], "tasks[0].id: must not contain the NUL character"),
    ([task(metadata={"a": "\x00"})], "tasks[0].metadata: must not contain the NUL character"),
    ([task(metadata={"\x00": 1})], "tasks[0].metadata: must not contain the NUL character"),
    ([task(payload=["\x00"])], "tasks[0].payload: must not contain the NUL character"),
    ([task(on_start=webhook(body="\x00"))], "tasks[0].on_start.params.body: must not contain the NUL character"),
    ([task(timeout=0)], "tasks[0].timeout: must be between 1 and 86400, is 0"),
    ([task(timeout=86401)], "tasks[0].timeout: must be between 1 and 86400, is 86401"),
    ([task(timeout=10**40)], "tasks[0].timeout: must be between 1 and 86400, is 1000"),
    ([task(priority=1001)], "tasks[0].priority: must be between -1000 and 1000, is 1001"),
    ([task(priority=-1001)], "tasks[0].priority: must be between -1000 and 1000, is -1001"),
    ([task(expected_count=-1)], "tasks[0].expected_count: must be between 0 and"),
    ([task(completion="later")], "tasks[0].completion: must be 'callback' or 'response'"),
    ([task(metadata={"a": "x" * (65 * KIB)})], "tasks[0].metadata: must have at most 64 KiB"),
    ([task(payload="x" * (257 * KIB))], "tasks[0].payload: must have at most 256 KiB"),
    ([task(run_at="tomorrow")], "tasks[0].run_at: must be an RFC 3339 time"),
    ([task(run_at="2030-01-01T00:00:00")], "tasks[0].run_at: must name its time zone"),
    ([task(delay="soon")], "tasks[0].delay: "),
    ([task(delay=-1)], "tasks[0].delay: "),
    ([task(delay=1, run_at="2030-01-01T00:00:00Z")], "tasks[0].delay: cannot stand beside run_at"),
    ([task("a"), task("a")], "tasks[1].id: duplicate id 'a', already used by tasks[0]"),
    ([task("a", dependencies=after("a"))], "tasks[0].dependencies[0].id: task 'a' cannot depend on itself"),
    ([task("a", dependencies=after("x"))], "tasks[0].dependencies[0].id: unknown dependency 'x'"),
    ([task("a"), task("b", dependencies=after("a", "a"))], "tasks[1].dependencies[1].id: duplicate dependency 'a'"),
    ([task("a", dependencies=after("b")), task("b", dependencies=after("a"))],
     "dependencies form a cycle: a -> b -> a"),
    ([task("a", dependencies=after("b")), task("b", dependencies=after("c")), task("c", dependencies=after("b"))],
     "dependencies form a cycle: b -> c -> b"),
    ([task("a"), task("b", dependencies=[{"id": "a", "condition": "maybe"}])],
     "tasks[1].dependencies[0].condition: must be 'on_success', 'always' or 'on_failure'"),
    ([task("a"), task("b", dependencies=[{"id": "a", "condition": "always", "requires_success": True}])],
     "tasks[1].dependencies[0].condition: contradicts requires_success"),
    ([task(rules=[{"matcher": MATCHER, "max_concurrency": 1}])],
     "tasks[0].rules[0].matcher.fields: the task's metadata has no field 'site'"),
    ([task(metadata={"site": 1}, rules=[{"matcher": MATCHER}])],
     "tasks[0].rules[0]: must have exactly one of max_concurrency and max_capacity"),
    ([task(metadata={"site": 1}, rules=[{"matcher": MATCHER, "max_concurrency": 0}])],
     "tasks[0].rules[0].max_concurrency: must be between 1 and"),
    ([task(metadata={"site": 1}, rules=[{"matcher": MATCHER, "max_capacity": 1}])],
     "tasks[0].rules[0]: a Capacity rule needs expected_count on the task"),
    ([task(metadata={"site": 1}, rules=[{"type": "Odd", "matcher": MATCHER, "max_concurrency": 1}])],
     "tasks[0].rules[0].type: must be 'Concurrency' or 'Capacity'"),
    ([task(dedupe_strategy=[{"kind": "test", "status": "Gone"}])],
     "tasks[0].dedupe_strategy[0].status: must be one of Waiting, Pending"),
    ([task(retry={"max_retries": 3, "jittr": 1})], "tasks[0].retry.jittr: "),
    ([task(retry="no-such-policy")], "tasks[0].retry"),
    ([task(on_start=webhook("ftp://a.test/"))], "tasks[0].on_start.params.url: "),
    ([task(on_start=webhook("not a url"))], "tasks[0].on_start.params.url: "),
    ([task(on_start=webhook(verb="Fetch"))], "tasks[0].on_start.params.verb: must be one of Get, Post"),
    ([task(on_start=webhook(timeout=61))], "tasks[0].on_start.params.timeout: must be above 0 and at most 60"),
    ([task(on_start=webhook(headers={"Host": "x"}))], "tasks[0].on_start.params.headers: "),
    ([task(on_start=webhook(headers={"X-A": "a\r\nb: c"}))], "tasks[0].on_start.params.headers: "),
    ([task(on_start={"kind": "Mail", "params": {"url": "http://a.test/"}})],
     "tasks[0].on_start.kind: must be 'Webhook'"),
]  # fmt: skip


@pytest.mark.parametrize(("tasks", "detail"), BROKEN)
async def test_broken_rules_are_named(client: Client, tasks: list[dict[str, Any]], detail: str) -> None:
    details = refused(await client.post("/task", [*tasks, task("fine")]))

    assert len(details) == 1
    assert detail in details[0]
    assert await count_tasks(client) == 0
    assert (await client.get("/batches")).json == []


@pytest.mark.parametrize(
    ("members", "detail"),
    [
        ({"name": " "}, "name: must not be empty"),
        ({"name": "x" * 256}, "name: must have at most 255 characters"),
        ({"name": 1}, "name: must be text, is a number"),
        ({"namespace": "x" * 101}, "namespace: must have at most 100 characters"),
        ({"namespace": "a\x00"}, "namespace: must not contain the NUL character"),
        ({"context": "x" * (257 * KIB)}, "context: must have at most 256 KiB"),
        ({"retry": {"max_retries": 3, "typo": 1}}, "retry.typo: "),
        ({"tasks": None}, "tasks: is required"),
        ({"tasks": {}}, "tasks: must be an array, is an object"),
        ({"tasks": [task(timeout="x")]}, "tasks[0].timeout: must be a whole number, is text"),
    ],
)
async def test_a_bad_envelope_is_refused(client: Client, members: dict[str, Any], detail: str) -> None:
    (found,) = refused(await client.post("/batch", {"tasks": [task()], **members}))

    assert found.startswith(detail)
    assert await count_tasks(client) == 0


async def test_an_array_is_no_envelope(client: Client) -> None:
    assert refused(await client.post("/batch", [task()])) == ["body: must be an object, is an array"]


async def test_all_problems_of_all_tasks_are_told_at_once(client: Client) -> None:
    details = refused(await client.post("/task", [task(timeout=0), task("b", name=" "), task("b", kind="")]))

    assert details == [
        "tasks[0].timeout: must be between 1 and 86400, is 0",
        "tasks[1].name: must not be empty",
        "tasks[2].kind: must not be empty",
        "tasks[2].id: duplicate id 'b', already used by tasks[1]",
    ]


async def test_mistyped_members_and_broken_rules_are_told_together(client: Client) -> None:
    details = refused(
        await client.post("/task", [task(timeout="x"), task("b", name=" "), task("c", dependencies=after("d"))])
    )

    assert details == [
        "tasks[0].timeout: must be a whole number, is text",
        "tasks[1].name: must not be empty",
        "tasks[2].dependencies[0].id: unknown dependency 'd'; no task of this batch has that id",
    ]


@pytest.mark.parametrize("name", ["", 1])
async def test_the_list_of_problems_is_bounded(client: Client, name: object) -> None:
    details = refused(await client.post("/task", [task(str(number), name=name) for number in range(1500)]))

    assert len(details) == 1001
    assert details[-1] == "… and 500 more"


async def test_a_search_for_problems_comes_to_an_end(client: Client) -> None:
    details = refused(await client.post("/task", [task(dependencies=[1] * 200_000)]))

    assert len(details) == 1001


async def test_a_batch_has_at_most_100_000_tasks(client: Client) -> None:
    tasks = [{"id": str(number), "name": "n", "kind": "k"} for number in range(100_001)]
    limit = "tasks: must be at most 100000, are 100001; split the batch"

    assert refused(await client.post("/task", tasks)) == [limit]
    assert refused(await client.post("/task", [*tasks, 1])) == [limit.replace("100001", "100002")]


MALFORMED: list[tuple[bytes, str]] = [
    (b"", "body: is empty; send JSON"),
    (b" \n", "body: is empty; send JSON"),
    (b"{", "body: malformed JSON: "),
    (b"[", "body: malformed JSON: "),
    (b"[]]", "body: malformed JSON: "),
    (b"nul", "body: malformed JSON: "),
    (b"{'a': 1}", "body: malformed JSON: "),
    (b"[NaN]", "body: malformed JSON: "),
    (b'[{"payload": Infinity}]', "body: malformed JSON: "),
    (b'["\xff"]', "body: must be UTF-8"),
    (b'["\xed\xa0\x80"]', "body: must be UTF-8"),
    (b'["\\ud800"]', "body: must not contain lone surrogates"),
    (b'[{"id": "a", "name": "\\udfff", "kind": "k"}]', "body: must not contain lone surrogates"),
    (b'[{"id": "a", "name": "n", "kind": "k", "payload": 1e400}]', "tasks[0].payload: Number out of range"),
    (json.dumps([task()]).encode("utf-16"), "body: malformed JSON: "),
    (b"[" * 200_000, "body: is nested too deeply"),
    (b"[" * 200_000 + b"]" * 200_000, "body: is nested too deeply"),
    (b'[{"id": "a", "name": "n", "kind": "k", "payload": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}]",
     "body: is nested too deeply"),
    (b'[{"id": "a", "name": "n", "kind": "k", "payload": ' + b"[" * 101 + b"]" * 101 + b"}]",
     "tasks[0].payload: must be nested at most 100 deep"),
    (b'[{"id": "a", "name": "n", "kind": "k", "timeout": ' + b"9" * 5_000 + b"}]", ""),
]  # fmt: skip


@pytest.mark.parametrize(("body", "detail"), MALFORMED, ids=range(len(MALFORMED)))
async def test_malformed_json_is_refused(client: Client, body: bytes, detail: str) -> None:
    (found,) = refused(await client.post("/task", body=body))

    assert found.startswith(detail)
    assert await count_tasks(client) == 0
