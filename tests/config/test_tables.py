"""Tables whose keys are the operator's own names."""

from __future__ import annotations

import pytest

from perdure.config import ConfigurationError, load
from tests.config.conftest import WriteFile


def test_policies_are_kept_as_they_are_written(write_file: WriteFile) -> None:
    text = """
    [retry.policies.bank]
    max_retries = 8
    schedule = ["7d", {delay_hours = 1}]
    [retry.kinds."etl.load"]
    name = "bank"
    [retry.namespaces.acme]
    enabled = false
    """

    retry = load(environ={}, path=write_file(text)).retry

    assert retry.policies == {"bank": {"max_retries": 8, "schedule": ["7d", {"delay_hours": 1}]}}
    assert retry.kinds == {"etl.load": {"name": "bank"}}
    assert retry.namespaces == {"acme": {"enabled": False}}


def test_limits_are_reduced_to_their_number(write_file: WriteFile) -> None:
    text = "[limits.kinds.etl]\nmax_concurrency = 3\n[limits.namespaces.acme]\nmax_concurrency = 50"

    limits = load(environ={}, path=write_file(text)).limits

    assert limits.kinds == {"etl": 3}
    assert limits.namespaces == {"acme": 50}


def test_outcomes_are_statuses_classes_or_codes(write_file: WriteFile) -> None:
    text = """
    [classification]
    404 = "retryable"
    "5xx" = "final"
    dns_error = "rate_limited"
    ValueError = "final"
    304 = "success"
    """

    assert load(environ={}, path=write_file(text)).classification == {
        "404": "retryable",
        "5xx": "final",
        "dns_error": "rate_limited",
        "ValueError": "final",
        "304": "success",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[retry.policies]\nbank = 3",
            "retry.policies.bank = 3 (FILE): must be a table of retry policy fields, written as [retry.policies.bank]",
        ),
        (
            "[limits.kinds]\netl = 3",
            "limits.kinds.etl = 3 (FILE): must be a table with max_concurrency, written as [limits.kinds.etl]",
        ),
        *(
            (
                f"[limits.kinds.etl]\nmax_concurrency = {value}",
                f"limits.kinds.etl.max_concurrency = {value} (FILE): must be an integer of at least 1",
            )
            for value in ("0", "-1", "true", "1.5")
        ),
        (
            "[limits.kinds.etl.load]\nmax_concurrency = 3",
            "limits.kinds.etl.load = {…} (FILE): no such setting; allowed is max_concurrency "
            "(a name that has dots stands in quotes)",
        ),
        *(
            (
                f'[classification]\n"{outcome}" = "final"',
                f'classification.{outcome} = "final" (FILE): no such outcome; '
                'it must be a status ("404"), a class ("5xx") or a code ("connection_error")',
            )
            for outcome in ("40", "600", "6xx", "4x", "connection error", "")
        ),
        (
            '[classification]\n404 = "sometimes"',
            'classification.404 = "sometimes" (FILE): must be one of success, final, retryable, rate_limited',
        ),
        (
            '[classification]\ndns_error = "success"',
            'classification.dns_error = "success" (FILE): must be one of final, retryable, rate_limited',
        ),
        (
            "[classification]\n404 = []",
            "classification.404 = [] (FILE): must be one of success, final, retryable, rate_limited",
        ),
        ("[secrets]\nbank = 5", "secrets.bank = *** (FILE): must be text that is not empty"),
        (
            '[secrets]\n"a b" = "x"',
            "secrets.a b = *** (FILE): the name of a secret must consist of letters, digits, dots, hyphens "
            "and underscores",
        ),
    ],
)
def test_entries_that_are_refused(write_file: WriteFile, text: str, message: str) -> None:
    path = write_file(text)

    with pytest.raises(ConfigurationError) as caught:
        load(environ={}, path=path)

    assert caught.value.problems == [message.replace("(FILE)", f"(file {path})")]
