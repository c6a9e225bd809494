"""`perdure batch`: finding batches, seeing one as a tree, stopping and retrying it; watching is in test_watching.py."""

from __future__ import annotations

from perdure.api.shapes import BatchDetails, BatchSummary
from tests.cli.place import Place, hook
from tests.engine.definitions import UNKNOWN, on, task


def test_a_batch_from_its_submission_to_its_end(every_place: Place) -> None:
    ids = every_place.submit(hook("a"), hook("b", "a"), hook("c", "a"), name="Nightly")
    every_place.end(ids["a"], "Failure")

    shown = every_place.prints("batch", "show", ids["batch"])
    assert shown.startswith(f"Nightly\n  id         {ids['batch']}\n")
    assert "  tasks      3: 3 Failure\n" in shown
    assert every_place.prints("batch", "retry", ids["batch"]) == "3 tasks live again.\n"
    assert every_place.prints("batch", "retry", ids["batch"]) == "Nothing in it has failed.\n"
    assert every_place.prints("batch", "stop", ids["batch"]) == "Stopped: 3 canceled, 0 were over already.\n"
    assert every_place.prints("batch", "stop", ids["batch"]) == "Stopped: 0 canceled, 3 were over already.\n"


def test_programs_get_what_the_api_answers(every_place: Place) -> None:
    ids = every_place.submit(task("a"), task("b", "a"))

    (listed,) = every_place.answers("batch", "list")
    assert listed.keys() == set(BatchSummary.__struct_fields__)
    shown = every_place.answers("batch", "show", ids["batch"])
    assert shown.keys() == {*BatchDetails.__struct_fields__, "tasks", "links"}
    assert [(one["parent_id"], one["child_id"]) for one in shown["links"]] == [(ids["a"], ids["b"])]
    assert every_place.answers("batch", "stop", ids["batch"])["canceled_waiting"] == 1
    assert every_place.answers("batch", "retry", ids["batch"]) == {"batch_id": ids["batch"], "retried_count": 0}


def test_a_batch_that_is_not_there(every_place: Place) -> None:
    every_place.submit(task("a"))

    for verb in ("show", "stop", "retry", "watch"):
        assert every_place.refuses("batch", verb, UNKNOWN) == f"There is no batch {UNKNOWN}.\n"


def test_batches_are_listed_with_what_their_tasks_show(place: Place) -> None:
    place.submit(task("a", kind="etl"), name="Nightly")
    ids = place.submit(task("a"), task("b", "a"), name="Release")

    lines = place.prints("batch", "list").splitlines()
    assert lines[0].split() == ["id", "age", "tasks", "now", "kinds", "name"]
    assert lines[1].split()[0] == ids["batch"]
    assert "2      1 Waiting, 1 Pending  test   Release" in lines[1]


def test_batches_are_found(place: Place) -> None:
    place.submit(task("a", kind="etl"), name="Nightly")
    place.submit(task("a"), task("b", "a"), name="Release")

    def found(*filters: str) -> list[str]:
        return [one["name"] for one in place.answers("batch", "list", *filters)]

    assert found() == ["Release", "Nightly"]
    assert found("--kind", "etl") == ["Nightly"]
    assert found("--name", "Rel") == found("--status", "Waiting") == ["Release"]
    assert found("--created-after", "1h") == found("--created-before", "2100-01-01T00:00:00Z") == found()
    assert found("--created-before", "1h") == found("--created-after", "2100-01-01T00:00:00Z") == []
    assert found("--limit", "1") == ["Release"]


def test_a_graph_is_drawn_as_a_tree(place: Place) -> None:
    ids = place.submit(
        task("a", name="Extract"),
        task("b", "a", name="Clean"),
        task("c", "a", name="Count"),
        task("d", "b", "c", name="Load"),
        task("e", on("d", "on_failure"), name="Alarm"),
        task("f", name="Lonely"),
    )
    shown = place.prints("batch", "show", ids["batch"]).partition("\n\n")[2]
    for key, id in ids.items():
        shown = shown.replace(id, key)

    assert shown.splitlines() == [
        "Pending  Extract  a",
        "├─ Waiting  Clean  b",
        "│  └─ Waiting  Load  d  (also after Count)",
        "│     └─ Waiting  Alarm  e  (on_failure)",
        "└─ Waiting  Count  c",
        "Pending  Lonely  f",
    ]


def test_a_long_tree_ends_at_its_limit_and_says_so(place: Place) -> None:
    ids = place.submit(task("000"), *(task(f"{number:03}", f"{number - 1:03}") for number in range(1, 300)))

    shown = place.run("batch", "show", ids["batch"], "--limit", "5")
    assert len(shown.stdout.partition("\n\n")[2].splitlines()) == 5
    assert shown.stderr == "There are 295 more tasks; --limit 0 draws all.\n"
    assert len(place.prints("batch", "show", ids["batch"], "--limit", "0").partition("\n\n")[2].splitlines()) == 300
    assert len(place.answers("batch", "show", ids["batch"])["tasks"]) == 300
