"""The checks of reports about a task, and how long texts are cut."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.checks import check_count, check_report, clip
from perdure.domain.drafts import CountDraft, ReportDraft


@pytest.mark.parametrize(
    ("draft", "problem"),
    [
        (ReportDraft(status="Running"), "status: must be 'Success' or 'Failure'"),
        (ReportDraft(status="Failure"), "failure_reason: is required when status is 'Failure'"),
        (ReportDraft(status="Failure", failure_reason="  "), "failure_reason: is required when status is 'Failure'"),
        (ReportDraft(failure_reason="\x00"), "failure_reason: must not contain the NUL character"),
        (ReportDraft(error_class="odd"), "error_class: must be 'final', 'retryable' or 'rate_limited'"),
        (ReportDraft(code=""), "code: must not be empty"),
        (ReportDraft(new_success=-1), "new_success: must be between 0 and 2147483647, is -1"),
        (ReportDraft(new_failures=2**31), "new_failures: must be between 0 and 2147483647, is 2147483648"),
        (ReportDraft(expected_count=-1), "expected_count: must be between 0 and 2147483647, is -1"),
        (ReportDraft(priority=2000), "priority: must be between -1000 and 1000, is 2000"),
        (ReportDraft(attempt=-1), "attempt: must be between 0 and 2147483647, is -1"),
    ],
)
def test_reports_that_make_no_sense(draft: ReportDraft, problem: str) -> None:
    assert [str(found) for found in check_report(draft)] == [problem]


def test_good_reports() -> None:
    assert check_report(ReportDraft()) == []
    assert check_report(ReportDraft(status="Success", new_success=0)) == []
    assert check_report(ReportDraft(status="Failure", failure_reason="broke", error_class="final", code="E1")) == []


@pytest.mark.parametrize(
    ("draft", "problem"),
    [
        (CountDraft(), "new_success: give new_success or new_failures above zero"),
        (CountDraft(0, 0), "new_success: give new_success or new_failures above zero"),
        (CountDraft(-1, 5), "new_success: must be between 0 and 2147483647, is -1"),
        (CountDraft(1, -5), "new_failures: must be between 0 and 2147483647, is -5"),
    ],
)
def test_counts_that_count_nothing(draft: CountDraft, problem: str) -> None:
    assert [str(found) for found in check_count(draft)] == [problem]


def test_a_count_of_one_is_enough() -> None:
    assert check_count(CountDraft(1)) == check_count(CountDraft(None, 1)) == []


@pytest.mark.parametrize("cut", [clip, lambda text: clip(text, 4096)])
def test_a_long_text_is_cut_at_a_character(cut: Callable[[str], str]) -> None:
    assert cut("short") == "short"
    assert cut("a\x00b") == "ab"
    assert cut("ü" * 4000) == "ü" * 2048


@given(st.text(max_size=200), st.integers(0, 100))
def test_what_is_cut_fits_and_is_a_beginning(text: str, most_bytes: int) -> None:
    cut = clip(text, most_bytes)

    assert len(cut.encode()) <= most_bytes
    assert text.replace("\x00", "").encode("utf-8", "replace").decode().startswith(cut)
