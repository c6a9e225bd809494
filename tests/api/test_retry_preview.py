"""POST /retry/preview."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.api import build_app
from perdure.assemble import make_instance
from perdure.config import Retry, Server, Settings
from tests.api.client import Client


@pytest.fixture
def configured(tmp_path: Path) -> Client:
    """An application with limits and named policies of its own; nothing that is asked here needs its database."""
    settings = Settings(
        server=Server(database_url=f"sqlite:///{tmp_path}/never-made.db"),
        retry=Retry(
            max_retries_limit=4,
            policies={"bank": {"max_retries": 2, "initial_delay_secs": 30, "jitter": "none"}},
        ),
    )
    instance = make_instance(settings, "http://perdure.test")
    return Client(build_app(instance.engine.commands, instance.store, instance.metrics, settings))


async def test_a_policy_is_previewed(configured: Client) -> None:
    answered = await configured.post("/retry/preview", {"maxAttempts": 2, "initial_delay_secs": 10})

    assert answered.status == 200
    assert list(answered.json) == ["policy", "timeline", "total_span_secs", "warnings"]
    assert answered.json["timeline"] == [
        {"attempt": 1, "delay_secs": 10, "earliest_secs": 9, "expected_secs": 10, "latest_secs": 11},
        {"attempt": 2, "delay_secs": 20, "earliest_secs": 27, "expected_secs": 30, "latest_secs": 33},
    ]
    assert (answered.json["total_span_secs"], answered.json["warnings"]) == (30, [])
    assert (answered.json["policy"]["max_retries"], answered.json["policy"]["jitter"]) == (2, "proportional")


async def test_a_preview_warns(configured: Client) -> None:
    expires_at = datetime.now(UTC) + timedelta(seconds=100)
    body = {"max_retries": 4, "initial_delay_secs": 10, "jitter": "none", "expires_at": expires_at.isoformat()}
    answered = await configured.post("/retry/preview", body)

    assert answered.json["warnings"] == ["attempt 4 falls after expires_at"]


@pytest.mark.parametrize("body", ["bank", {"name": "bank"}])
async def test_a_named_policy_is_previewed(configured: Client, body: Any) -> None:
    answered = await configured.post("/retry/preview", body)

    assert [retry["delay_secs"] for retry in answered.json["timeline"]] == [30, 60]
    assert answered.json["policy"]["name"] == "bank"


async def test_fields_beside_a_name_override_it(configured: Client) -> None:
    answered = await configured.post("/retry/preview", {"name": "bank", "max_retries": 1})

    assert answered.json["total_span_secs"] == 30


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["max_retries"]),
        ({"max_retries": 5}, ["max_retries"]),
        ({"max_retries": 0, "strategy": "fixed_delay"}, ["max_retries", "delay_secs"]),
        ({"max_retrys": 3}, ["max_retrys", "max_retries"]),
        ({"name": "unknown"}, ["name"]),
        ("unknown", ["policy"]),
        ([], ["body"]),
        (7, ["body"]),
        (None, ["body"]),
    ],
)
async def test_bad_policies_are_refused(configured: Client, body: Any, fields: list[str]) -> None:
    answered = await configured.post("/retry/preview", body)

    assert answered.status == 400
    assert [detail.partition(":")[0] for detail in answered.details] == fields


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"max_retries": 1e999}'])
async def test_what_is_no_json_is_refused(configured: Client, body: bytes) -> None:
    assert (await configured.post("/retry/preview", body=body)).status == 400
