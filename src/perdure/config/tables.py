"""Tables of the file whose keys are the operator's own names: policies, classification, limits, secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from perdure.config.declare import Complaint

FAILURE_CLASSES = ("final", "retryable", "rate_limited")

_HTTP_OUTCOME = re.compile(r"[1-5]([0-9]{2}|xx)")
_ERROR_CODE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_SECRET_NAME = re.compile(r"[A-Za-z0-9_.-]+")

Reading = tuple[dict[str, Any], list[Complaint]]


def read_policies(name: str, raw: Mapping[str, object]) -> Reading:
    """Keep policies as they are written; only their form is checked here, their rules are retry rules."""
    policies: dict[str, Any] = {}
    complaints = []
    for key, value in raw.items():
        if isinstance(value, Mapping):
            policies[key] = dict(value)
        else:
            text = f"must be a table of retry policy fields, written as [{name}.{key}]"
            complaints.append(Complaint(f"{name}.{key}", value, text))
    return policies, complaints


def read_limits(name: str, raw: Mapping[str, object]) -> Reading:
    """Reduce each table to its `max_concurrency`; an empty one sets no limit."""
    limits: dict[str, Any] = {}
    complaints = []
    for key, value in raw.items():
        entry = f"{name}.{key}"
        if not isinstance(value, Mapping):
            text = f"must be a table with max_concurrency, written as [{entry}]"
            complaints.append(Complaint(entry, value, text))
            continue
        for field, limit in value.items():
            if field != "max_concurrency":
                text = "no such setting; allowed is max_concurrency (a name that has dots stands in quotes)"
                complaints.append(Complaint(f"{entry}.{field}", limit, text))
            elif isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1:
                limits[key] = limit
            else:
                complaints.append(Complaint(f"{entry}.{field}", limit, "must be an integer of at least 1"))
    return limits, complaints


def read_classification(name: str, raw: Mapping[str, object]) -> Reading:
    """Check outcome → class."""
    classes: dict[str, Any] = {}
    complaints = []
    for outcome, value in raw.items():
        entry = f"{name}.{outcome}"
        if not _HTTP_OUTCOME.fullmatch(outcome) and not _ERROR_CODE.fullmatch(outcome):
            text = 'no such outcome; it must be a status ("404"), a class ("5xx") or a code ("connection_error")'
            complaints.append(Complaint(entry, value, text))
        elif value not in (allowed := _classes_of(outcome)):
            complaints.append(Complaint(entry, value, f"must be one of {', '.join(allowed)}"))
        else:
            classes[outcome] = value
    return classes, complaints


def _classes_of(outcome: str) -> tuple[str, ...]:
    # Only an answer can be a success: an error code means that there was none.
    return ("success", *FAILURE_CLASSES) if _HTTP_OUTCOME.fullmatch(outcome) else FAILURE_CLASSES


def read_secrets(name: str, raw: Mapping[str, object]) -> Reading:
    """Check that secrets are text under names that `${secret:NAME}` can hold."""
    kept: dict[str, Any] = {}
    complaints = []
    for key, value in raw.items():
        entry = f"{name}.{key}"
        if not _SECRET_NAME.fullmatch(key):
            text = "the name of a secret must consist of letters, digits, dots, hyphens and underscores"
            complaints.append(Complaint(entry, value, text))
        elif not isinstance(value, str) or not value:
            complaints.append(Complaint(entry, value, "must be text that is not empty"))
        else:
            kept[key] = value
    return kept, complaints
