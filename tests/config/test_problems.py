"""What is said about a configuration that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.config import ConfigurationError, load
from perdure.config.problems import mask_password, show_value
from perdure.config.settings import SECTIONS, SETTINGS
from perdure.config.sources import Draft, read_document
from tests.config.conftest import WriteFile

# Letters that occur in no other part of the URLs below, and all that could end a password too early.
PASSWORD_LETTERS = "ΩΨ@:/?#%& "

TOML_VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
TOML_KEYS = st.sampled_from(
    [*(setting.key for setting in SETTINGS), "kinds", "policies", "max_concurrency", "404"]
) | st.text(max_size=8)
TOML_SECTIONS = st.sampled_from([*(section.name for section in SECTIONS), "secrets", "classification"])


def problems_of(
    text: str | None = None,
    write_file: WriteFile | None = None,
    *,
    environ: dict[str, str] | None = None,
    flags: dict[str, object] | None = None,
) -> list[str]:
    path = write_file(text) if text is not None and write_file is not None else None
    with pytest.raises(ConfigurationError) as caught:
        load(flags or {}, environ or {}, path)
    return caught.value.problems


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[server]\nport = 70000", "server.port = 70000 (FILE): must be an integer from 0 to 65535"),
        ('[server]\nport = "80"', 'server.port = "80" (FILE): must be an integer from 0 to 65535'),
        ("[server]\nport = true", "server.port = true (FILE): must be an integer from 0 to 65535"),
        ('[server]\nkinds = "etl"', 'server.kinds = "etl" (FILE): must be a list of text'),
        ("[server]\nkinds = [1]", "server.kinds = [1] (FILE): must be a list of text"),
        ('[log]\nlevel = "loud"', 'log.level = "loud" (FILE): must be one of debug, info, warning, error'),
        ('[server]\nhost = ""', 'server.host = "" (FILE): must be text that is not empty'),
        ("[webhooks]\nallow_loopback = 1", "webhooks.allow_loopback = 1 (FILE): must be true or false"),
        (
            '[webhooks]\ntimeout_secs = "2m"',
            'webhooks.timeout_secs = "2m" (FILE): must be a duration from 0.1 to 60 seconds, such as 90, 90s or 1h30m',
        ),
        (
            "[backoff]\ndefault_backoff_seconds = []",
            "backoff.default_backoff_seconds = [] (FILE): "
            "must be a list of one or more durations from 0 to 31536000 seconds, such as 90, 90s or 1h30m",
        ),
        (
            "[backoff]\njitter_max_percentage = 10",
            "backoff.jitter_max_percentage = 10 (FILE): must be a number from 0 to 1",
        ),
        (
            "[backoff]\nbackoff_multiplier = nan",
            "backoff.backoff_multiplier = nan (FILE): must be a number from 1 to 1000",
        ),
        ("[server]\nprot = 1", "server.prot = 1 (FILE): no such setting; did you mean server.port?"),
        (
            "[engine]\nconcurrency = 1",
            "engine.concurrency = 1 (FILE): no such setting; did you mean webhooks.concurrency?",
        ),
        (
            "[log]\nzebra = 1979-05-27",
            "log.zebra = 1979-05-27 (FILE): no such setting; [log] has level, format",
        ),
        ("port = 1", "port = 1 (FILE): no such section; did you mean server.port?"),
        ("[webhook]\ntimeout_secs = 1", "webhook = {…} (FILE): no such section; did you mean webhooks?"),
        (
            "[zebra]",
            "zebra = {…} (FILE): no such section; there are server, log, engine, webhooks, "
            "retention, retry, backoff, limits, classification, secrets",
        ),
        ("server = 1", "server = 1 (FILE): must be a table, written as [server]"),
        ("backoff = false", "backoff = false (FILE): must be a table, written as [backoff]"),
        (
            "[retry]\npolicies = 1",
            "retry.policies = 1 (FILE): must be a table, with entries written as [retry.policies.NAME]",
        ),
    ],
)
def test_problems_of_a_file(write_file: WriteFile, text: str, message: str) -> None:
    path = write_file(text)

    assert problems_of(text, write_file) == [message.replace("(FILE)", f"(file {path})")]


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"PORT": "http"}, 'server.port = "http" (environment PORT): must be an integer from 0 to 65535'),
        ({"PORT": "8_0"}, 'server.port = "8_0" (environment PORT): must be an integer from 0 to 65535'),
        (
            {"PORT": "1", "PERDURE_PORT": "2"},
            'server.port is set differently by PERDURE_PORT = "2" and PORT = "1" (environment): set only one of them',
        ),
        (
            {"PERDURE_SERVR_PORT": "1"},
            'PERDURE_SERVR_PORT = "1" (environment): no such setting; did you mean PERDURE_SERVER_PORT?',
        ),
        (
            {"PERDURE_ZEBRA": "1"},
            'PERDURE_ZEBRA = "1" (environment): no such setting; `perdure config show` lists the settings',
        ),
        (
            {"HOST_URL": "tasks.example.com"},
            'server.host_url = "tasks.example.com" (environment HOST_URL): must be an http:// or https:// '
            "URL without query and fragment, such as https://perdure.example.com",
        ),
        (
            {"INSTANCE_ID": "two words"},
            'server.instance_id = "two words" (environment INSTANCE_ID): '
            "must be 1 to 200 printable ASCII characters without blanks",
        ),
        (
            {"PERDURE_CONFIG": "absent.toml"},
            "config = absent.toml (environment PERDURE_CONFIG): must be a file that can be read: "
            "No such file or directory",
        ),
    ],
)
def test_problems_of_the_environment(environ: dict[str, str], message: str) -> None:
    assert problems_of(environ=environ) == [message]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"server.port": -1}, "server.port = -1 (flag --port): must be an integer from 0 to 65535"),
        (
            {"log.level": "x"},
            'log.level = "x" (flag --log-level): must be one of debug, info, warning, error',
        ),
        ({"server.prot": 1}, "server.prot = 1 (flag): no such setting; did you mean server.port?"),
        (
            {"server.workers": 4},
            "server.workers = 4 (flag --workers): must be 1 with SQLite; several processes need a PostgreSQL "
            "database in server.database_url",
        ),
        (
            {"server.api": False, "server.engine": False},
            "server.api = false (flag --no-api): must be true while server.engine is false "
            "(flag --no-engine), or the instance would do nothing",
        ),
        (
            {"engine.claim_timeout_secs": 65},
            "engine.claim_timeout_secs = 65 (flag engine.claim_timeout_secs): must be longer than "
            "the longest send, 65 seconds (60 and webhooks.connect_timeout_secs), or webhooks would "
            "be sent twice",
        ),
    ],
)
def test_problems_of_flags_and_contradictions(flags: dict[str, object], message: str) -> None:
    assert problems_of(flags=flags) == [message]


def test_several_processes_are_fine_on_postgresql() -> None:
    settings = load({"server.workers": 4}, {"DATABASE_URL": "postgresql://db/x"})

    assert settings.server.workers == 4


def test_every_problem_is_reported_at_once(write_file: WriteFile) -> None:
    text = """
    colour = "red"
    [server]
    port = -1
    hots = "x"
    [limits.kinds.etl]
    max_concurrency = 0
    [classification]
    "999" = "final"
    """
    environ = {"PORT": "x", "PERDURE_LOG_LEVEL": "loud", "PERDURE_NOTHING": "1"}
    flags: dict[str, object] = {"log.format": "xml", "server.api": False, "server.engine": False}

    problems = problems_of(text, write_file, environ=environ, flags=flags)

    assert [problem.split(" = ")[0] for problem in problems] == [
        "colour",
        "server.port",
        "server.hots",
        "limits.kinds.etl.max_concurrency",
        "classification.999",
        "server.port",
        "log.level",
        "PERDURE_NOTHING",
        "log.format",
        "server.api",
    ]


def test_a_contradiction_is_not_reported_for_a_value_that_is_bad_itself() -> None:
    environ = {"PERDURE_CLAIM_TIMEOUT": "soon", "PERDURE_WEBHOOKS_CONNECT_TIMEOUT_SECS": "60"}

    [problem] = problems_of(environ=environ)

    assert problem.startswith('engine.claim_timeout_secs = "soon"')


@pytest.mark.parametrize(
    ("content", "beginning"),
    [
        (b"[server", "must be a TOML file in UTF-8: "),
        (b"name = '\xff'", "must be a TOML file in UTF-8: "),
        (b"port = " + b"9" * 5000, "must be a TOML file in UTF-8: "),
    ],
)
def test_a_file_that_is_no_toml(tmp_path: Path, content: bytes, beginning: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)

    with pytest.raises(ConfigurationError) as caught:
        load(environ={}, path=path)

    [problem] = caught.value.problems
    assert problem.startswith(f"config = {path} (flag --config): {beginning}")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="must be a file that can be read"):
        load(environ={}, path=tmp_path)


def test_the_error_lists_its_problems() -> None:
    assert str(ConfigurationError(["one"])) == "The configuration has a problem:\n- one"
    assert str(ConfigurationError(["one", "two"])) == "The configuration has 2 problems:\n- one\n- two"


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("postgresql://user:hunter2@db/x", "postgresql://user:***@db/x"),
        ("postgresql://:hunter2@db/x", "postgresql://:***@db/x"),
        ("postgresql://user:hun@ter2@db/x", "postgresql://user:***@db/x"),
        ("postgresql://db/x?user=u&password=hunter2&a=b", "postgresql://db/x?user=u&password=***&a=b"),
        ("postgresql://user@db/x", "postgresql://user@db/x"),
        ("sqlite:///perdure.db", "sqlite:///perdure.db"),
        ("postgres:user:hunter2@db", "***"),
    ],
)
def test_passwords_of_urls_are_masked(url: str, masked: str) -> None:
    assert mask_password(url) == masked


@given(password=st.text(PASSWORD_LETTERS, min_size=1))
def test_no_letter_of_a_password_is_shown(password: str) -> None:
    shown = mask_password(f"postgresql://user:{password}@db/x")

    assert not {"Ω", "Ψ"} & set(shown)


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        ('[server]\ndatabase_url = "mysql://user:hunter2@db/x"', {}),
        ('[server]\ndatabase_ulr = "postgresql://user:hunter2@db/x"', {}),
        ('[secrets]\nbank = ["hunter2"]', {}),
        ('secrets = "hunter2"', {}),
        ('[server]\napi_token = "hunter2"', {}),
        ("", {"DATABASE_URL": "mysql://user:hunter2@db/x"}),
        (
            "",
            {
                "DATABASE_URL": "postgresql://a:hunter2@db/x",
                "PERDURE_DATABASE_URL": "postgresql://b:hunter2@db/x",
            },
        ),
        ("", {"PERDURE_SECRETS_BANK": "hunter2"}),
        ("", {"PERDURE_SIGNING_KEY": "hunter2"}),
        ("", {"PERDURE_SECRET_": "hunter2"}),
    ],
)
def test_no_message_gives_away_a_secret(write_file: WriteFile, text: str, environ: dict[str, str]) -> None:
    problems = problems_of(text, write_file, environ=environ)

    assert len(problems) == 1
    assert "***" in problems[0]
    assert "hunter2" not in problems[0]


def test_long_values_are_shortened() -> None:
    assert len(show_value("x" * 1000)) == 80
    assert len(show_value(["x" * 50] * 50)) == 80


@given(document=st.dictionaries(TOML_SECTIONS, st.dictionaries(TOML_KEYS, TOML_VALUES, max_size=4), max_size=4))
def test_no_content_of_a_file_breaks_the_reading(document: dict[str, object]) -> None:
    draft = Draft()

    read_document(draft, document, "file x")

    assert all("(file x): " in problem for problem in draft.problems)
