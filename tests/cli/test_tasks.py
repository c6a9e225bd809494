"""`perdure task`: finding tasks, seeing one, acting on it; on a database and through a server alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from perdure.api.shapes import FullTask, ShortTask
from perdure.store.interface import Session
from perdure.store.verbs.deliver import Room, Settled, settle_deliveries, take_deliveries
from tests.cli.place import RECEIVER, Place, hook
from tests.engine.definitions import STEADY, UNKNOWN, task
from tests.engine.driven import Driven


def test_a_task_from_its_submission_to_its_second_attempt(every_place: Place) -> None:
    ids = every_place.submit(hook("a", retry=STEADY))
    every_place.end(ids["a"], "Failure", failure_reason="the shop is closed")

    shown = every_place.prints("task", "show", ids["a"])
    assert "RetryPending: failed, and is tried again at 20" in shown
    assert "then a wait of 10s (exponential)\n     the shop is closed (explicit, retryable)\n" in shown
    assert f"do not wait: perdure task retry {ids['a']} {' '.join(every_place.flags)}\n" in shown
    (listed,) = every_place.answers("task", "list", "--status", "RetryPending")
    assert listed["id"] == ids["a"]

    assert every_place.prints("task", "pause", ids["a"]) == "Paused: task a is Paused now.\n"
    assert every_place.prints("task", "resume", ids["a"]) == "Resumed: task a is RetryPending now.\n"
    assert every_place.prints("task", "retry", ids["a"]) == "Tried again: task a is Pending now.\n"
    assert every_place.prints("task", "cancel", ids["a"]) == "Canceled: task a is Canceled now.\n"


def test_programs_get_what_the_api_answers(every_place: Place) -> None:
    ids = every_place.submit(hook("a"))
    every_place.start()

    (listed,) = every_place.answers("task", "list")
    assert listed.keys() == set(ShortTask.__struct_fields__)
    shown = every_place.answers("task", "show", ids["a"])
    assert shown.keys() == {*FullTask.__struct_fields__, "attempts", "deliveries", "events"}
    assert (shown["status"], shown["attempts"]) == ("Running", [])
    assert [(one["trigger"], one["last_status"]) for one in shown["deliveries"]] == [("start", 202)]
    assert [event["to_status"] for event in shown["events"]] == ["Claimed", "Running"]
    assert every_place.answers("task", "pause", ids["a"])["status"] == "Paused"
    assert every_place.answers("task", "resume", ids["a"])["status"] == "Running"
    assert every_place.answers("task", "cancel", ids["a"])["status"] == "Canceled"
    assert every_place.answers("task", "retry", ids["a"])["status"] == "Pending"


def test_refusals_say_why(every_place: Place) -> None:
    ids = every_place.submit(task("a"))

    assert every_place.refuses("task", "show", UNKNOWN) == f"There is no task {UNKNOWN}.\n"
    assert every_place.refuses("task", "cancel", "a") == "There is no task a.\n"
    assert "not paused" in every_place.refuses("task", "resume", ids["a"])
    assert '"status": 404' in every_place.refuses("task", "retry", UNKNOWN, "--json")


def test_what_cannot_be_read_is_a_slip_of_the_pen(every_place: Place) -> None:
    every_place.submit(task("a"))

    assert "status: must be one of Waiting" in every_place.refuses("task", "list", "--status", "Done", code=2)
    assert "--due-before 'soon' is not understood" in every_place.refuses(
        "task", "list", "--due-before", "soon", code=2
    )


def test_filters_are_those_of_the_api(place: Place) -> None:
    place.submit(task("a", kind="etl", metadata={"shop": "north"}, timeout=7), namespace="web")
    place.submit(task("b", kind="mail", name="greeting"), task("c", "b", kind="mail"))
    (b,) = place.answers("task", "list", "--name", "greet")

    def found(*filters: str) -> list[str]:
        return [one["name"] for one in place.answers("task", "list", *filters)]

    assert found() == ["task c", "greeting", "task a"]
    assert found("--kind", "etl") == ["task a"]
    assert found("--namespace", "web") == ["task a"]
    assert found("--metadata", '{"shop": "north"}') == ["task a"]
    assert found("--timeout", "7") == ["task a"]
    assert found("--batch", b["batch_id"]) == ["task c", "greeting"]
    assert found("--status", "Waiting") == ["task c"]
    assert found("--status", "Waiting,Pending") == found("--status", "Waiting", "--status", "pending") == found()
    assert found("--error-class", "final") == []


def test_retries_that_are_due_are_found_by_a_time_or_a_duration(place: Place) -> None:
    ids = place.submit(hook("a", retry={"strategy": "fixed_delay", "delay_secs": 1800, "max_retries": 1}))
    place.end(ids["a"], "Failure")
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()

    for due, count in (("1h", 1), ("10m", 0), (tomorrow, 1), ("2020-01-01T00:00:00Z", 0)):
        assert len(place.answers("task", "list", "--due-before", due)) == count, due


def test_a_listing_ends_at_its_limit_and_says_so(place: Place) -> None:
    place.submit(*(task(f"{number:03}") for number in range(130)))

    shown = place.run("task", "list", "--limit", "2")
    assert len(shown.stdout.splitlines()) == 3
    assert shown.stderr == "There are more than these 2 tasks; --limit 0 shows all.\n"
    assert len(place.answers("task", "list")) == 50
    assert len(place.answers("task", "list", "--limit", "0")) == 130
    assert place.run("task", "list", "--limit", "130").stderr == ""


def test_an_empty_listing_says_so(place: Place) -> None:
    place.submit(task("a"))

    assert place.run("task", "list", "--kind", "none").stderr == "No tasks found.\n"
    assert place.answers("task", "list", "--kind", "none") == []


def test_a_task_can_be_changed_before_it_is_tried_again(place: Place) -> None:
    ids = place.submit(hook("a", payload={"day": 1}))
    place.end(ids["a"], "Failure")

    changed = place.answers("task", "retry", ids["a"], "--edit", '{"payload": {"day": 2}, "timeout": 5}')
    assert (changed["payload"], changed["timeout"], changed["attempt"]) == ({"day": 2}, 5, 1)
    assert "must be JSON" in place.refuses("task", "retry", ids["a"], "--edit", "day=2", code=2)


@pytest.mark.parametrize("verb", ["show", "retry", "cancel", "pause", "resume"])
def test_an_id_is_needed(place: Place, verb: str) -> None:
    assert "Missing argument 'ID'" in place.refuses("task", verb, code=2)


# What a person sees in the night


def test_a_failure_that_is_final(place: Place) -> None:
    ids = place.submit(hook("a", url=f"{RECEIVER}/broken", on_failure=[{"params": {"url": f"{RECEIVER}/alarm"}}]))

    async def work(driven: Driven) -> None:
        await driven.start()
        await driven.deliver()

    place.play(work)
    shown = place.prints("task", "show", ids["a"]).splitlines()

    assert "  status     Failure: failed; it has no retry policy" in shown
    assert "  on_start webhook failed: HTTP 500" in shown
    assert any(line.split() == ["end", "failure", "0", "Success", "1", "-", "HTTP", "202"] for line in shown)
    assert shown[-1].startswith(f"  try it again, with a fresh budget: perdure task retry {ids['a']} --database-url ")


def test_a_webhook_that_was_given_up_is_sent_again(every_place: Place) -> None:
    ids = every_place.submit(hook("a", on_success=[{"params": {"url": RECEIVER}}]))
    every_place.end(ids["a"])

    async def give_up(session: Session) -> None:
        (row,) = await take_deliveries(session, Room(1, 1), session.now)
        await settle_deliveries(session, [Settled(row["id"], 1, "success", "failure", 410, "HTTP 410", None)])

    every_place.play(lambda driven: driven.instance.store.write(give_up))

    advice = every_place.prints("task", "show", ids["a"]).splitlines()[-1]
    _, _, command = advice.partition("the end webhook was given up; send it again: perdure ")
    verb, delivery = command.split()[:2], command.split()[2]
    assert verb == ["task", "redrive"]
    assert every_place.prints(*verb, delivery) == f"Due again: the success webhook of task {ids['a']}.\n"
    every_place.play(lambda driven: driven.deliver())
    (sent,) = [one for one in every_place.answers("task", "show", ids["a"])["deliveries"] if one["trigger"] == "end"]
    assert (sent["status"], sent["last_status"], sent["attempts"]) == ("success", 202, 2)
    assert "accepted already" in every_place.refuses(*verb, delivery)
    assert every_place.refuses(*verb, UNKNOWN).startswith("There is no delivery")


def test_a_task_that_waits_names_what_it_waits_for(place: Place) -> None:
    ids = place.submit(task("a", name="Extract"), task("b", "a"))

    shown = place.prints("task", "show", ids["b"])
    assert "Waiting: waits for Extract (Pending)" in shown
    assert f"perdure task show {ids['a']}" in shown


def test_a_task_that_failed_with_its_parent_points_to_the_parent(place: Place) -> None:
    ids = place.submit(hook("a", name="Extract"), task("b", "a"))
    place.end(ids["a"], "Failure")

    shown = place.prints("task", "show", ids["b"])
    assert "Failure: failed without having run" in shown
    assert "  Parent Extract failed\n" in shown
    assert f"retry Extract, and this too: perdure task retry {ids['a']}" in shown


def test_a_pause_of_the_kind_is_named(place: Place) -> None:
    ids = place.submit(task("a"))

    async def pause(driven: Driven) -> None:
        await driven.commands.pause_scope("kind", "test")

    place.play(pause)
    assert "Pending: held back: the kind 'test' is paused" in place.prints("task", "show", ids["a"])


def test_a_parked_task_says_so(place: Place) -> None:
    ids = place.submit(hook("a", retry={"strategy": "immediate", "max_retries": 1, "on_exhausted": "pause"}))

    async def fail_twice(driven: Driven) -> None:
        for _ in range(2):
            await driven.engine.due_loop.run_once()
            await driven.start()
            await driven.report(ids["a"], "Failure")

    place.play(fail_twice)
    shown = place.prints("task", "show", ids["a"])
    assert "Paused: its retries are spent; it is parked for a person" in shown
    assert "1 of 1 retries used" in shown


def test_a_running_task_says_by_whom_and_until_when(place: Place) -> None:
    ids = place.submit(hook("a"))
    place.start()

    assert "Running: running by engine; without a sign of life it times out at 20" in place.prints(
        "task", "show", ids["a"]
    )


def test_a_task_that_is_done_needs_nothing(place: Place) -> None:
    ids = place.submit(hook("a", expected_count=3))
    place.end(ids["a"], result={"rows": 3}, new_success=3)

    shown = place.prints("task", "show", ids["a"])
    assert "  status     Success: done\n" in shown
    assert '  result     {"rows": 3}\n' in shown
    assert "  counted    3 succeeded, 0 failed of 3 expected\n" in shown
    assert shown.endswith("What to do\n  nothing\n")
