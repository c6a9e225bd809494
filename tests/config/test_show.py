"""The settings in effect, as people see them."""

from __future__ import annotations

from perdure.config import Settings, load, render_settings
from perdure.config.settings import SETTINGS
from tests.config.conftest import WriteFile


def shown(settings: Settings) -> dict[str, tuple[str, str]]:
    return {name: (value, source) for name, value, source in render_settings(settings)}


def test_every_setting_is_shown_once() -> None:
    names = [name for name, _, _ in render_settings(load(environ={"PERDURE_BACKOFF_JITTER_ENABLED": "no"}))]

    assert names == [setting.name for setting in SETTINGS]


def test_values_are_shown_as_they_would_be_written(write_file: WriteFile) -> None:
    text = """
    [server]
    kinds = ["etl", "mail"]
    [retry.policies.bank]
    max_retries = 8
    expires_at = 2030-01-01T00:00:00Z
    [limits.kinds.etl]
    max_concurrency = 3
    [classification]
    404 = "retryable"
    """
    path = write_file(text)
    rows = shown(load({"log.level": "debug"}, {"PERDURE_CLAIM_TIMEOUT": "2m"}, path))

    assert rows["server.kinds"] == ('["etl", "mail"]', f"file {path}")
    assert rows["server.api"] == ("true", "default")
    assert rows["log.level"] == ("debug", "flag --log-level")
    assert rows["engine.claim_timeout_secs"] == ("120", "environment PERDURE_CLAIM_TIMEOUT")
    assert rows["retry.max_delay_limit"] == ("3600", "default")
    assert rows["webhooks.delivery_retry"] == ("[5, 30, 120, 600, 3600, 21600, 57600]", "default")
    assert rows["backoff"] == ("not set", "default")
    assert rows["retry.policies.bank"] == (
        '{"max_retries": 8, "expires_at": "2030-01-01 00:00:00+00:00"}',
        f"file {path}",
    )
    assert rows["limits.kinds.etl"] == ("3", f"file {path}")
    assert rows["classification.404"] == ('"retryable"', f"file {path}")


def test_defaults_that_depend_on_others_are_worked_out() -> None:
    local = shown(Settings())
    public = shown(load({"server.host": "0.0.0.0", "server.port": 80}, {}))

    assert local["server.host_url"] == ("http://127.0.0.1:8000", "default")
    assert local["webhooks.allow_loopback"] == ("true", "default")
    assert public["webhooks.allow_loopback"] == ("false", "default")
    assert local["server.instance_id"] == ("(host name and a random suffix, new at every start)", "default")


def test_a_limit_taken_from_backoff_says_so(write_file: WriteFile) -> None:
    rows = shown(load(environ={}, path=write_file("[backoff]")))

    assert rows["retry.max_delay_limit"] == ("60", "backoff.max_backoff_seconds")
    assert rows["backoff.max_backoff_seconds"] == ("60", "default")


def test_secrets_and_passwords_are_masked() -> None:
    environ = {"DATABASE_URL": "postgresql://user:hunter2@db/x", "PERDURE_SECRET_BANK": "hunter2"}

    rows = shown(load(environ=environ))

    assert rows["server.database_url"] == ("postgresql://user:***@db/x", "environment DATABASE_URL")
    assert rows["secrets.BANK"] == ("***", "environment PERDURE_SECRET_BANK")
    assert "hunter2" not in repr(rows)
