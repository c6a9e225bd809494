"""What the documentation lists is complete: endpoints, members, limits, metrics, statuses, messages."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import fields
from inspect import getsource
from typing import Any

import pytest

from perdure.api.app import ENDPOINTS
from perdure.api.openapi import build_document
from perdure.api.problems import _KINDS
from perdure.api.shapes import FullTask, ShortTask
from perdure.clock import SystemClock
from perdure.config.settings import SETTINGS, TABLES
from perdure.domain import checks
from perdure.domain.drafts import TaskDraft
from perdure.domain.policy_fields import SPELLINGS
from perdure.domain.states import LABELS
from perdure.telemetry.metrics import Metrics
from perdure.webhooks.envelope import outgoing_headers
from perdure.webhooks.signing import Signer
from tests.docs.markdown import ROOT, Page, find_pages, page

PAGES = list(find_pages())
_OPERATION = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`]*)`")


def _operations() -> dict[tuple[str, str], dict[str, Any]]:
    document = build_document(ENDPOINTS)
    return {
        (method.upper(), path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def _documented_operations() -> dict[tuple[str, str], str]:
    """By method and path: the text of the section that describes it."""
    api = page("docs/api.md")
    return {
        (method, path): api.section(heading) for heading in api.headings for method, path in _OPERATION.findall(heading)
    }


def test_the_api_reference_has_every_endpoint_and_no_other() -> None:
    assert _documented_operations().keys() == _operations().keys()


@pytest.mark.parametrize(("method", "path"), _operations(), ids=[" ".join(key) for key in _operations()])
def test_the_api_reference_names_every_parameter_and_status(method: str, path: str) -> None:
    operation = _operations()[method, path]
    section = _documented_operations()[method, path]
    for parameter in operation.get("parameters", ()):
        if parameter["in"] != "path":
            assert f"`{parameter['name']}`" in section, f"{parameter['name']} is missing"
    for status in operation["responses"]:
        # Every request can be answered so; the page says it once.
        if status not in ("413", "500", "503"):
            assert re.search(rf"\b{status}\b", section), f"status {status} is missing"


def _members(schema: dict[str, Any], components: dict[str, Any]) -> set[str]:
    """The members of a body, those of the shapes within it included."""
    found: set[str] = set()
    waiting, seen = [schema], set()
    while waiting:
        one = waiting.pop()
        if "$ref" in one:
            name = one["$ref"].rpartition("/")[2]
            if name not in seen:
                seen.add(name)
                waiting.append(components[name])
        found |= one.get("properties", {}).keys()
        waiting += [*one.get("properties", {}).values(), *one.get("anyOf", ())]
        waiting += [one["items"]] if isinstance(one.get("items"), dict) else []
    return found


def test_the_api_reference_names_every_member_of_every_body() -> None:
    components = build_document(ENDPOINTS)["components"]["schemas"]
    code = {word for span in page("docs/api.md").code for word in re.findall(r"[\w-]+", span)}
    for key, operation in _operations().items():
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            missing = _members(schema, components) - code - {"max_concurency"}
            assert not missing, f"{' '.join(key)}: {sorted(missing)}"


@pytest.mark.parametrize(
    ("heading", "members"),
    [
        ("A task to submit", [field.name for field in fields(TaskDraft)]),
        ("A task as it is shown", [*FullTask.__struct_fields__, *ShortTask.__struct_fields__]),
        ("Retry policy", [name for name in SPELLINGS if name != "first_delays"]),
    ],
)
def test_tables_of_members_are_complete(heading: str, members: list[str]) -> None:
    section = page("docs/api.md").section(heading)
    assert [name for name in members if f"`{name}`" not in section] == []


def test_every_kind_of_problem_is_explained() -> None:
    shown = set(re.findall(r"`([a-z-]+)`", page("docs/api.md").section("Problems").partition("|")[2]))
    assert {name for _, name, _ in _KINDS.values()} <= shown


def test_limits_are_those_that_are_checked() -> None:
    rows = dict(re.findall(r"^\| (.+?) +\| +(.+?) +\|$", page("docs/api.md").section("Limits"), re.MULTILINE))
    expected = {
        "tasks in a batch": checks.TASKS_PER_BATCH,
        "dependencies of a task": checks.DEPENDENCIES_PER_TASK,
        "rules of a task": checks.RULES_PER_TASK,
        "actions for one trigger": checks.ACTIONS_PER_TRIGGER,
        "`id` and `name`": checks.NAME_LENGTH,
        "`kind` and `namespace`": checks.KIND_LENGTH,
        "`metadata`": checks.METADATA_BYTES,
        "`payload`, `result`, `context` and the body of a webhook": checks.PAYLOAD_BYTES,
        "nesting of JSON": checks.JSON_DEPTH,
    }
    for what, limit in expected.items():
        number, unit = re.match(r"([\d,]+)( KiB)?", rows[what]).groups()  # type: ignore[union-attr]
        assert int(number.replace(",", "")) * (1024 if unit else 1) == limit, what


def test_every_metric_is_explained_and_no_other() -> None:
    text, _ = Metrics().render()
    exported = set(re.findall(r"^# HELP (\S+)", text.decode(), re.MULTILINE))
    explained = set(re.findall(r"^\| `(\w+)", page("docs/operations.md").section("Metrics"), re.MULTILINE))
    assert explained == exported


def test_log_messages_are_those_that_are_logged() -> None:
    section = page("docs/operations.md").section("Logs")
    messages = re.findall(r"^\| `(.+?)(?: …)?` \|", section, re.MULTILINE)
    code = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    assert messages
    assert [message for message in messages if message.replace("success", "{trigger.value}") not in code] == []


def test_every_header_of_a_webhook_is_explained() -> None:
    added = set(re.findall(r'"([\w-]+)"(?:\]|,)', getsource(outgoing_headers))) - {"Accept-Encoding"}
    section = page("docs/webhooks.md").section("The request")
    assert added > {"Idempotency-Key", "X-Task-Id"}
    assert [name for name in added if f"`{name}`" not in section] == []


def test_signatures_are_verified_as_shown() -> None:
    (shown,) = (block.text for block in page("docs/webhooks.md").blocks if "def verify" in block.text)
    names: dict[str, Any] = {}
    exec(shown, names)
    key = bytes(range(32))
    secret = "whsec_" + b64encode(key).decode()
    headers = Signer([b"another key", key], SystemClock()).sign("task:start:0", b"{}")
    assert names["verify"](secret, headers, b"{}")
    assert not names["verify"](secret, headers, b"[]")


def test_every_status_is_explained() -> None:
    section = page("docs/concepts.md").section("States")
    assert [label for label in LABELS.values() if f"`{label}`" not in section] == []


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_settings_and_flags_that_are_named_exist(page: Page) -> None:
    known = {setting.name for setting in SETTINGS} | {table.name for table in TABLES}
    sections = {name.partition(".")[0] for name in known}
    for span in page.code:
        if re.fullmatch(r"\w+\.\w+", span) and span.partition(".")[0] in sections:
            assert span in known, f"{page.name} names the setting {span}"
