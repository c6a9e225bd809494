"""`perdure retries`: what failed and is tried again, and how retries fare."""

from __future__ import annotations

from perdure.api.retry_shapes import RetrySchedule, RetryStats
from tests.cli.place import Place, hook
from tests.engine.definitions import STEADY


def _fail_one(place: Place) -> str:
    ids = place.submit(hook("import", kind="etl", retry=STEADY), hook("mail"))
    place.end(ids["import"], "Failure", failure_reason="the shop is closed")
    return ids["import"]


def test_retries_are_listed(every_place: Place) -> None:
    id = _fail_one(every_place)

    head, line = every_place.prints("retries").splitlines()
    assert head.startswith("id ")
    assert line.startswith(f"{id}  import  scheduled  1 of 3  in ")
    assert line.endswith("exponential_backoff  the shop is closed")
    (retry,) = every_place.answers("retries")
    assert retry.keys() == set(RetrySchedule.__struct_fields__)
    assert (retry["target_id"], retry["node_id"], retry["error_history"][0]["error"]) == (
        id,
        "import",
        "the shop is closed",
    )


def test_how_retries_fare(every_place: Place) -> None:
    _fail_one(every_place)

    stats = every_place.answers("retries", "--stats")
    assert stats.keys() == set(RetryStats.__struct_fields__)
    assert (stats["pending"], stats["by_strategy"]["exponential_backoff"]["scheduled_next_24h"]) == (1, 1)
    head, strategy, total = every_place.prints("retries", "--stats").splitlines()
    assert head.split()[:2] == ["strategy", "waiting"]
    assert strategy.split() == ["exponential_backoff", "1", "1", "0", "0", "0", "0", "-", "10s"]
    assert total.split() == ["all", "1", "1", "0", "0", "0", "0", "-", "10s"]


def test_retries_are_found(place: Place) -> None:
    _fail_one(place)

    for filters, count in (
        (("--kind", "etl"), 1),
        (("--kind", "mail"), 0),
        (("--status", "scheduled"), 1),
        (("--status", "failed,completed"), 0),
        (("--due-before", "1h"), 1),
        (("--due-before", "2020-01-01T00:00:00Z"), 0),
    ):
        assert len(place.answers("retries", *filters)) == count, filters
    assert "status: must be one of pending" in place.refuses("retries", "--status", "Failure", code=2)
    assert "--stats counts all retries" in place.refuses("retries", "--stats", "--kind", "etl", code=2)
