"""Where values come from, and which source wins."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from perdure.config import Backoff, ConfigurationError, Settings, load
from tests.config.conftest import WriteFile

PORTS = st.none() | st.integers(0, 65535)

# The block of the specification, as it stands there.
FOUNDING_FILE = """
[backoff]
default_backoff_seconds = [1, 2, 4, 8, 16, 32]   # first delays of a policy that names no delay of its own
max_backoff_seconds = 60                         # default and ceiling of max_delay_secs
backoff_multiplier = 2.0
jitter_enabled = true
jitter_max_percentage = 0.1

[retry]                 # limits: max_retries_limit = 10, max_delay_limit = 3600, retry_after_limit
[retry.policies.bank]   # named policies
[retry.kinds.etl]       # default policy of a kind;  [retry.namespaces.acme] of a namespace
[classification]        # outcome → class, e.g. "404" = "retryable"
[limits.kinds.etl]      # max_concurrency = 3
"""


def test_without_any_source_everything_is_default() -> None:
    assert load(environ={}) == Settings()
    assert load(environ={}).source_of("server.port") == "default"


@given(flag=PORTS, variable=PORTS, file=PORTS)
@hypothesis_settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_flags_beat_environment_beats_file_beats_default(
    write_file: WriteFile, flag: int | None, variable: int | None, file: int | None
) -> None:
    path = write_file("" if file is None else f"[server]\nport = {file}")
    environ = {} if variable is None else {"PERDURE_SERVER_PORT": str(variable)}

    settings = load({"server.port": flag}, environ, path)

    ranked = [
        (flag, "flag --port"),
        (variable, "environment PERDURE_SERVER_PORT"),
        (file, f"file {path}"),
        (8000, "default"),
    ]
    value, source = next((value, source) for value, source in ranked if value is not None)
    assert settings.server.port == value
    assert settings.source_of("server.port") == source


@pytest.mark.parametrize(
    ("variable", "text", "section", "key", "expected"),
    [
        ("DATABASE_URL", "postgres://db/x", "server", "database_url", "postgres://db/x"),
        ("PERDURE_DATABASE_URL", "sqlite:///x.db", "server", "database_url", "sqlite:///x.db"),
        ("HOST_URL", "https://tasks.example.com", "server", "host_url", "https://tasks.example.com"),
        ("PORT", "9000", "server", "port", 9000),
        ("PERDURE_PORT", "9000", "server", "port", 9000),
        ("INSTANCE_ID", "blue-1", "server", "instance_id", "blue-1"),
        ("RETRY_MAX_RETRIES_LIMIT", "20", "retry", "max_retries_limit", 20),
        ("RETRY_MAX_DELAY_LIMIT", "2h", "retry", "max_delay_limit", 7200.0),
        ("RETRY_LOOP_INTERVAL_MS", "250", "retry", "loop_interval_ms", 250),
        ("PERDURE_RETRY_LOOP_INTERVAL_MS", "250", "retry", "loop_interval_ms", 250),
        ("PERDURE_RETRY_AFTER_LIMIT", "60", "retry", "retry_after_limit", 60.0),
        ("PERDURE_RETRY_RETRY_AFTER_LIMIT", "60", "retry", "retry_after_limit", 60.0),
        ("PERDURE_RETRY_MAX_FREE_WAITS", "7", "retry", "max_free_waits", 7),
        ("PERDURE_RETRY_MAX_SCHEDULE_DAYS", "30", "retry", "max_schedule_days", 30),
        ("PERDURE_ALLOW_LOOPBACK", "0", "webhooks", "allow_loopback", False),
        ("PERDURE_ALLOW_PRIVATE_NETWORKS", "1", "webhooks", "allow_private_networks", True),
        ("PERDURE_WEBHOOK_CONCURRENCY", "16", "webhooks", "concurrency", 16),
        ("PERDURE_DELIVERY_RETRY", "5, 30s, 2m", "webhooks", "delivery_retry", (5.0, 30.0, 120.0)),
        ("PERDURE_RETENTION_DAYS", "0", "retention", "days", 0),
        ("PERDURE_CLAIM_TIMEOUT", "2m", "engine", "claim_timeout_secs", 120.0),
        ("PERDURE_CANCEL_ON_TIMEOUT", "off", "engine", "cancel_on_timeout", False),
        ("PERDURE_DEAD_END_CANCEL_ENABLED", "no", "engine", "dead_end_cancel_enabled", False),
        ("PERDURE_MAX_WORKER_LOSSES", "1", "engine", "max_worker_losses", 1),
        ("PERDURE_HISTORY_MAX_ATTEMPTS", "10", "engine", "history_max_attempts", 10),
        ("PERDURE_SERVER_KINDS", "etl, mail", "server", "kinds", ("etl", "mail")),
        ("PERDURE_LOG_LEVEL", "DEBUG", "log", "level", "debug"),
    ],
)
def test_variables(variable: str, text: str, section: str, key: str, expected: object) -> None:
    settings = load(environ={variable: text})

    assert getattr(getattr(settings, section), key) == expected
    assert settings.source_of(f"{section}.{key}") == f"environment {variable}"


def test_two_names_of_one_setting_may_agree() -> None:
    settings = load(environ={"PERDURE_ALLOW_LOOPBACK": "on", "PERDURE_WEBHOOKS_ALLOW_LOOPBACK": "1"})

    assert settings.webhooks.allow_loopback is True


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load(environ={"PORT": "", "PERDURE_CONFIG": " ", "PERDURE_LOG_LEVEL": ""}) == Settings()


def test_flags_may_be_text_or_values_and_none_is_not_given() -> None:
    flags = {
        "server.kinds": ["etl"],
        "server.namespaces": "acme,beta",
        "server.api": False,
        "server.host": None,
    }

    settings = load(flags, environ={})

    assert (settings.server.kinds, settings.server.namespaces) == (("etl",), ("acme", "beta"))
    assert settings.server.api is False
    assert settings.source_of("server.kinds") == "flag --only kinds=…"
    assert settings.source_of("server.host") == "default"


def test_the_file_is_the_one_of_the_flag_then_of_the_variable_then_the_default(tmp_path: Path) -> None:
    for port, name in enumerate(("perdure.toml", "variable.toml", "flag.toml"), start=1):
        (tmp_path / name).write_text(f"[server]\nport = {port}", encoding="utf-8")
    environ = {"PERDURE_CONFIG": "variable.toml"}

    assert load(environ=environ, path=tmp_path / "flag.toml").server.port == 3
    assert load(environ=environ).server.port == 2
    assert load(environ={}).server.port == 1
    assert load(environ={}).source_of("server.port") == "file perdure.toml"


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "chosen.toml"
    path.write_bytes(b"\xef\xbb\xbf[server]\r\nport = 7\r\n")

    assert load(environ={}, path=path).server.port == 7


def test_the_founding_backoff_file_is_accepted_as_it_stands(write_file: WriteFile) -> None:
    settings = load(environ={}, path=write_file(FOUNDING_FILE))

    assert settings.backoff == Backoff(
        default_backoff_seconds=(1, 2, 4, 8, 16, 32),
        max_backoff_seconds=60,
        backoff_multiplier=2.0,
        jitter_enabled=True,
        jitter_max_percentage=0.1,
    )
    assert settings.retry.policies == {"bank": {}}
    assert settings.retry.kinds == {"etl": {}}
    assert settings.limits.kinds == {}


def test_there_is_no_backoff_unless_something_in_it_is_set(write_file: WriteFile) -> None:
    assert load(environ={}).backoff is None
    assert load(environ={}, path=write_file("[backoff]")).backoff == Backoff()
    variables = {"PERDURE_BACKOFF_DEFAULT_BACKOFF_SECONDS": "1, 2m"}
    assert load(environ=variables).backoff == Backoff(default_backoff_seconds=(1, 120))


def test_the_maximum_of_backoff_is_the_limit_of_all_delays(write_file: WriteFile) -> None:
    settings = load(environ={}, path=write_file("[backoff]\nmax_backoff_seconds = 45"))

    assert (settings.retry.max_delay_limit, settings.retry.retry_after_limit) == (45, 45)
    assert settings.source_of("retry.max_delay_limit") == "backoff.max_backoff_seconds"


def test_a_limit_that_is_set_apart_stays(write_file: WriteFile) -> None:
    path = write_file("[backoff]\n[retry]\nretry_after_limit = 900\nmax_retries_limit = 4")

    settings = load(environ={}, path=path)

    assert (settings.retry.max_delay_limit, settings.retry.retry_after_limit) == (60, 900)
    assert settings.retry.max_retries_limit == 4


def test_secrets_come_from_the_environment_over_the_file(write_file: WriteFile) -> None:
    path = write_file('[secrets]\nBANK = "from file"\nmail = "kept"')

    settings = load(environ={"PERDURE_SECRET_BANK": "from environment"}, path=path)

    assert settings.secrets == {"BANK": "from environment", "mail": "kept"}
    assert settings.source_of("secrets.BANK") == "environment PERDURE_SECRET_BANK"
    assert settings.source_of("secrets.mail") == f"file {path}"


def test_variables_of_others_are_left_alone() -> None:
    others = {"PERDURE_TEST_POSTGRES": "1", "HOME": "/home/x", "RETRY_AFTER_LIMIT": "x", "HOST": "y"}

    assert load(environ=others) == Settings()


def test_settings_and_problems_travel_between_processes(write_file: WriteFile) -> None:
    settings = load(environ={"PORT": "9000"}, path=write_file(FOUNDING_FILE))
    error = ConfigurationError(["one", "two"])

    assert pickle.loads(pickle.dumps(settings)) == settings
    assert pickle.loads(pickle.dumps(error)).problems == ["one", "two"]


@given(environ=st.dictionaries(st.sampled_from(["PORT", "PERDURE_LOG_LEVEL", "PERDURE_X", "HOST_URL"]), st.text()))
def test_no_environment_breaks_anything_but_the_configuration(environ: dict[str, str]) -> None:
    problems = ["none"]
    try:
        load(environ=environ)
    except ConfigurationError as error:
        problems = error.problems

    assert problems


@pytest.mark.usefixtures("empty_directory")
def test_the_address_of_a_server_is_no_setting_of_one() -> None:
    assert load({}, {"PERDURE_URL": "http://127.0.0.1:8000"}) == Settings()
