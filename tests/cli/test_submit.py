"""`perdure submit`: one task, a list, or a batch; JSON or YAML; from a file or from standard input."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.place import Place
from tests.engine.definitions import task

NIGHTLY = """\
name: Nightly
namespace: web
context: {commit: 1f3a9c2}
tasks:
  - id: extract
    name: Extract
    kind: etl
    run_at: 2100-01-01T00:00:00Z
  - id: load
    name: Load
    kind: etl
    dependencies:
      - id: extract
"""


def test_a_list_of_tasks(every_place: Place, folder: Path) -> None:
    (folder / "tasks.json").write_text(json.dumps([task("a"), task("b", "a")]))

    lines = every_place.prints("submit", "tasks.json").splitlines()
    (batch,) = every_place.answers("batch", "list")
    assert lines[0] == f"batch {batch['batch_id']}"
    assert [line.split()[1:] for line in lines[1:]] == [
        ["status", "key", "name"],
        ["Pending", "a", "task", "a"],
        ["Waiting", "b", "task", "b"],
    ]


def test_a_batch_in_yaml(every_place: Place, folder: Path) -> None:
    (folder / "nightly.yaml").write_text(NIGHTLY)

    submitted = every_place.answers("submit", "nightly.yaml")
    assert [one["key"] for one in submitted["tasks"]] == ["extract", "load"]
    batch = every_place.answers("batch", "show", submitted["batch_id"])
    assert (batch["name"], batch["namespace"], batch["context"]) == ("Nightly", "web", {"commit": "1f3a9c2"})


@pytest.mark.parametrize(
    "text", [json.dumps(task("a")), f"\n {json.dumps([task('a')])}", NIGHTLY, "- {id: a, name: A, kind: k}"]
)
def test_standard_input_may_hold_either(place: Place, text: str) -> None:
    assert place.answers("submit", "-", input=text)["tasks"]


def test_the_batch_can_be_named_by_flags(place: Place) -> None:
    given = place.answers("submit", "-", "--name", "Nightly", "--namespace", "web", input=json.dumps([task("a")]))

    shown = place.answers("batch", "show", given["batch_id"])
    assert (shown["name"], shown["namespace"]) == ("Nightly", "web")


def test_the_same_key_submits_once(place: Place) -> None:
    keyed = ("submit", "-", "--idempotency-key", "order-7")
    first = place.answers(*keyed, input=json.dumps([task("a")]))

    assert place.answers(*keyed, input=json.dumps([task("a")])) == first
    assert len(place.answers("task", "list")) == 1
    assert "used before with another" in place.refuses(*keyed, input=json.dumps([task("b")]))


def test_duplicates_create_nothing(place: Place) -> None:
    one = task("a", metadata={"x": 1}, dedupe_strategy=[{"kind": "test", "status": "Pending", "fields": ["x"]}])
    place.submit(one)

    assert place.prints("submit", "-", input=json.dumps([one])).startswith("Nothing was created")
    assert place.answers("submit", "-", input=json.dumps([one])) == {"batch_id": None, "tasks": []}


def test_every_problem_of_a_submission_is_told(every_place: Place) -> None:
    said = every_place.refuses("submit", "-", input='[{"id": "a", "name": "", "kind": "etl", "timeout": 0}]')

    assert "  - tasks[0].name: must not be empty\n" in said
    assert "  - tasks[0].timeout: must be between 1 and 86400, is 0\n" in said


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tasks.json", b"- id: a", "The file tasks.json is not JSON: "),
        ("tasks.json", b"[NaN]", "The file tasks.json is not JSON: NaN is no number there"),
        ("tasks.json", b"", "The file tasks.json is not JSON: "),
        ("tasks.json", b"3", "The file tasks.json must hold a task, a list of tasks, or a batch"),
        ("tasks.json", b"\xff\xfe", "The file tasks.json must be UTF-8 text."),
        ("tasks.yaml", b"a: [", "The file tasks.yaml is not the YAML that JSON could say: "),
        ("tasks.yaml", b"on: 1", "the key True is no text; put it into quotes."),
        ("tasks.yaml", b"{id: !!set {a, b}}", "The file tasks.yaml is not the YAML that JSON could say: "),
        ("tasks.yaml", b"id: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("tasks.yaml", b"&a [*a]", "The file tasks.yaml is not the YAML that JSON could say: "),
        ("tasks.yml", b"", "The file tasks.yml must hold a task"),
        ("tasks", b"hello", "The file tasks must hold a task"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_slip_of_the_pen(
    place: Place, folder: Path, name: str, content: bytes, message: str
) -> None:
    (folder / name).write_bytes(content)

    assert message in place.refuses("submit", name, code=2)
    assert not (folder / "jobs.db").exists()


def test_a_file_that_is_not_there(place: Place) -> None:
    said = place.refuses("submit", "none.json", code=2)

    assert said == "The file none.json cannot be read: No such file or directory.\n"


def test_without_pyyaml_the_extra_is_named(place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (folder / "nightly.yaml").write_text(NIGHTLY)

    assert "pip install 'perdure[yaml]'" in place.refuses("submit", "nightly.yaml", code=2)
    assert place.answers("submit", "-", input=json.dumps(task("a")))["batch_id"]
