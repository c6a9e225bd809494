"""The delays of a custom schedule, in all their forms."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.domain.policy import RetryLimits
from tests.domain.policies import DAY, LIMITS, accept, fields_refused, refuse

HOUR = 3600.0


def custom(schedule: Any, spelling: str = "schedule") -> dict[str, Any]:
    return {"strategy": "custom", "max_retries": 2, spelling: schedule}


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [
        ([60], (60.0,)),
        ([0, 0.5, 60], (0.0, 0.5, 60.0)),
        (["7d", "1h30m", "250ms", "90", "2w"], (7 * DAY, 5400.0, 0.25, 90.0, 14 * DAY)),
        ([{"delay_days": 7}], (7 * DAY,)),
        ([{"delay_hours": 2}], (2 * HOUR,)),
        ([{"delay_minutes": 3}], (180.0,)),
        ([{"delay_secs": 4}], (4.0,)),
        (
            [{"delayDays": 1}, {"delayHours": 1}, {"delayMinutes": 1}, {"delaySecs": 1}],
            (DAY, HOUR, 60.0, 1.0),
        ),
        ([{"delay_seconds": 4}, {"delaySeconds": 5}], (4.0, 5.0)),
        ([{"delay_days": 1, "delayHours": 12}], (1.5 * DAY,)),
        ([{"delay_days": 0.5, "delay_hours": None}], (0.5 * DAY,)),
        ([60, "2m", {"delay_minutes": 3}], (60.0, 120.0, 180.0)),
        ([{"attempt": 2, "delay_secs": 20}, {"attempt": 1, "delay_secs": 10}], (10.0, 20.0)),
        (
            {"attempts": [{"attempt": 1, "delay_days": 7}, {"attempt": 2, "delay_days": 14}]},
            (7 * DAY, 14 * DAY),
        ),
        ({"attempts": [60, "2m"]}, (60.0, 120.0)),
        (["365d"], (365 * DAY,)),
    ],
)
@pytest.mark.parametrize("spelling", ["schedule", "custom_schedule", "customSchedule"])
def test_forms_of_a_schedule(schedule: Any, seconds: tuple[float, ...], spelling: str) -> None:
    assert accept(custom(schedule, spelling)).schedule == seconds


@pytest.mark.parametrize(
    ("schedule", "fields"),
    [
        ([], [""]),
        ({}, [""]),
        ({"attempts": []}, [".attempts"]),
        ({"attempts": None}, [""]),
        ({"attempts": 3}, [".attempts"]),
        ({"attempts": [1], "attempt": 1}, [".attempt"]),
        ("7d", [""]),
        (7, [""]),
        (True, [""]),
        ([-1], ["[0]"]),
        ([None], ["[0]"]),
        ([True], ["[0]"]),
        ([float("nan"), float("inf"), 10**400], ["[0]", "[1]", "[2]"]),
        (["soon", "", "-1d"], ["[0]", "[1]", "[2]"]),
        (["366d"], ["[0]"]),
        ([{"delay_days": 365, "delay_secs": 1}], ["[0]"]),
        ([{"delay_days": 1e308}], ["[0]"]),
        ([{}], ["[0]"]),
        ([{"attempt": 1}], ["[0]"]),
        ([{"delay_days": "7"}], ["[0].delay_days"]),
        ([{"delay_days": True}], ["[0].delay_days"]),
        ([{"delay_days": -1}], ["[0].delay_days"]),
        ([{"delay_days": 10**400}], ["[0].delay_days"]),
        ([{"delay_days": 1, "delayDays": 1}], ["[0].delayDays"]),
        ([{"delay_weeks": 1, "delay_secs": 1}], ["[0].delay_weeks"]),
        ([{"attempt": 1, "delay_secs": 1}, {"attempt": 3, "delay_secs": 1}], [""]),
        ([{"attempt": 1, "delay_secs": 1}, {"attempt": 1, "delay_secs": 1}], [""]),
        ([{"attempt": 0, "delay_secs": 1}], [""]),
        ([{"attempt": "1", "delay_secs": 1}], [""]),
        ([{"attempt": True, "delay_secs": 1}], [""]),
        ([{"attempt": [], "delay_secs": 1}], [""]),
        ([{"attempt": 1, "delay_secs": 1}, 60], [""]),
        ([1] * 1001, [""]),
    ],
)
def test_schedules_that_are_refused(schedule: Any, fields: list[str]) -> None:
    assert fields_refused(custom(schedule)) == [f"retry.schedule{field}" for field in fields]


def test_messages_about_attempt_numbers() -> None:
    numbered = [{"attempt": number, "delay_secs": 1} for number in (1, 2, 4)]

    assert refuse(custom({"attempts": numbered})) == [
        "retry.schedule.attempts: attempt numbers must be 1 to 3 without gaps: 3 is missing"
    ]
    assert refuse(custom([*numbered, 60])) == [
        "retry.schedule: attempt numbers must be 1 to 4 without gaps: every entry needs one, or none has any"
    ]


def test_a_hint_for_a_misspelled_unit() -> None:
    assert refuse(custom([{"delayDay": 1, "delay_secs": 1}])) == [
        "retry.schedule[0].delayDay: is no known field; did you mean delay_days?"
    ]


def test_the_delay_limit_does_not_apply_but_the_limit_of_days_does() -> None:
    week = custom(["7d"])

    accept(week, RetryLimits(max_delay_limit=60))
    assert refuse(week, RetryLimits(max_schedule_days=6)) == [
        "retry.schedule[0]: must be at most 6 days (RETRY_MAX_SCHEDULE_DAYS)"
    ]


def test_a_long_list_of_bad_delays_is_not_told_in_full() -> None:
    assert len(refuse(custom(["soon"] * 1000))) == 10


def test_a_schedule_is_checked_even_where_it_is_not_used() -> None:
    assert fields_refused({"max_retries": 1, "schedule": ["soon"]}, LIMITS) == ["retry.schedule[0]"]
