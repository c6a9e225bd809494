"""The names that users rely on."""

from __future__ import annotations

import subprocess
import sys

import perdure


def test_these_and_no_others_are_public() -> None:
    assert sorted(perdure.__all__) == [
        "Batch",
        "Canceled",
        "Context",
        "Duplicate",
        "Final",
        "Invalid",
        "NoResult",
        "Node",
        "Perdure",
        "PerdureError",
        "Retry",
        "RetryAfter",
        "Retryable",
        "TaskFunction",
        "TaskHandle",
        "TaskNotSuccessful",
    ]
    for name in perdure.__all__:
        assert getattr(perdure, name).__name__ == name
        assert name in dir(perdure)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(perdure, "Nothing")


def test_importing_the_package_brings_nothing_along() -> None:
    program = "import sys, perdure; print('asyncpg' in sys.modules, 'starlette' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "False False"
