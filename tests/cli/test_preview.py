"""`perdure preview`: a policy drawn as a timeline, without a server and without a database."""

from __future__ import annotations

import json
import os
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from rich.console import Console
from typer.testing import CliRunner, Result

from perdure.cli.main import app
from perdure.cli.preview import draw
from perdure.domain.policy import RetryPolicy
from perdure.domain.preview import preview
from tests.docs.programs import Server, environment
from tests.domain.policies import LIMITS, NOW, accept, policies

EXPONENTIAL = """\
exponential_backoff, 5 retries, jitter: plus or minus 10 %

attempt  delay  earliest  expected  latest  0s                             2m50s
      1     5s      4.5s        5s    5.5s  ·●
      2    10s     13.5s       15s   16.5s  ···●
      3    20s     31.5s       35s   38.5s  ······━●━
      4    40s      1m8s     1m15s   1m22s  ··············━●━━
      5  1m20s     2m20s     2m35s   2m50s  ·····························━━━●━━━

Total span: 2m35s, with jitter at most 2m50s
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, in which nothing is configured from outside."""
    for name in list(os.environ):
        if name.startswith(("PERDURE_", "RETRY_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["preview", *arguments])


def printed(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_server_is_asked_for_the_policies_that_it_knows(folder: Path) -> None:
    (folder / "perdure.toml").write_text("[retry.policies.bank]\nmax_retries = 2\njitter = 'none'\n")
    with Server(folder, environment(folder), "--no-engine", "--port", "0") as server:
        server.wait_until_started()
        (folder / "perdure.toml").unlink()
        flags = ("--url", f"http://{server.address}")

        assert printed("bank", *flags).startswith("bank: exponential_backoff, 2 retries, jitter: none\n")
        assert json.loads(printed("bank", "--json", *flags))["policy"]["name"] == "bank"
        assert "max_retries" in refused('{"max_retries": 0}', *flags)
        assert "bank" in refused("bank")


def refused(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    return result.stderr


def test_a_timeline_is_drawn(folder: Path) -> None:
    assert printed('{"max_retries": 5}') == EXPONENTIAL
    assert list(folder.iterdir()) == [], "no database was made"


def test_one_retry_at_once() -> None:
    assert printed('{"strategy": "immediate", "max_retries": 1}').splitlines() == [
        "immediate, 1 retry, jitter: none",
        "",
        "attempt  delay  earliest  expected  latest  0s                                0s",
        "      1     0s        0s        0s      0s  ●",
        "",
        "Total span: 0s",
    ]


def test_warnings_are_printed() -> None:
    lines = printed('{"max_retries": 3, "jitter": "none", "expires_after_secs": 20}').splitlines()

    assert lines[-2:] == ["Total span: 35s", "Warning: attempt 3 falls after expires_after_secs."]


def test_a_policy_that_is_switched_off() -> None:
    assert printed('{"enabled": false}') == "No retries.\nWarning: enabled is false: nothing is retried.\n"


def test_json_is_what_the_api_answers() -> None:
    shown = json.loads(printed('{"max_retries": 1, "jitter": "none"}', "--json"))

    assert list(shown) == ["policy", "timeline", "total_span_secs", "warnings"]
    assert shown["timeline"] == [
        {"attempt": 1, "delay_secs": 5, "earliest_secs": 5, "expected_secs": 5, "latest_secs": 5}
    ]


@pytest.mark.parametrize("content", [b'{"max_retries": 5}', b'\xef\xbb\xbf\n{"maxAttempts": 5}\n'])
def test_a_policy_is_read_from_a_file(folder: Path, content: bytes) -> None:
    (folder / "policy.json").write_bytes(content)

    assert printed("@policy.json") == EXPONENTIAL
    assert printed(f"@{folder / 'policy.json'}") == EXPONENTIAL


CONFIGURATION = """
[retry]
max_retries_limit = 6

[retry.policies.bank]
max_retries = 2
initial_delay_secs = 30
jitter = "none"
"""


@pytest.mark.parametrize("argument", ["bank", " bank ", '"bank"', '{"name": "bank"}'])
def test_a_configured_policy_is_found_by_its_name(folder: Path, argument: str) -> None:
    (folder / "perdure.toml").write_text(CONFIGURATION)
    lines = printed(argument).splitlines()

    assert lines[0] == "bank: exponential_backoff, 2 retries, jitter: none"
    assert lines[-1] == "Total span: 1m30s"


def test_the_configured_limits_hold(folder: Path) -> None:
    file = folder / "other.toml"
    file.write_text(CONFIGURATION)

    assert "max_retries" in refused('{"max_retries": 7}', "--config", str(file))
    assert printed('{"max_retries": 7}')


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            '{"strategy": "fixed_delay"}',
            "The policy has problems:\n"
            "  - max_retries: is required: how often to retry, 1 to 10\n"
            "  - delay_secs: is required for strategy 'fixed_delay'\n",
        ),
        ("bank", "The policy has problems:\n  - policy: there is no policy named 'bank'; none is configured\n"),
        ("[1]", 'The policy must be an object such as {"max_retries": 3}, or a name.\n'),
        ("@missing.json", "The file missing.json cannot be read: No such file or directory.\n"),
    ],
)
def test_a_bad_policy_is_explained(argument: str, message: str) -> None:
    assert refused(argument) == message


@pytest.mark.parametrize("text", ['{"max_retries": ', "{", '"open', '{"a": 1} 2'])
def test_what_is_no_json_is_refused(text: str) -> None:
    assert refused(text).startswith("The policy is not JSON: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"max_retries = 3", "The file policy is not JSON: "),
        (b"\xff\xfe", "The file policy must be UTF-8 text.\n"),
        (b"null", "The file policy must be an object such as "),
    ],
)
def test_a_bad_file_is_refused(folder: Path, content: bytes, message: str) -> None:
    (folder / "policy").write_bytes(content)

    assert refused("@policy").startswith(message)


def test_problems_of_the_configuration_are_told_first(folder: Path) -> None:
    (folder / "perdure.toml").write_text("[retry.policies.bank]\nmax_retries = 0\n")

    assert refused("bank").startswith("The configuration has problems:\n  - retry.policies.bank.max_retries: ")


def drawn(policy: RetryPolicy, **options: Any) -> list[str]:
    file = StringIO()
    draw(preview(policy, LIMITS, NOW), Console(file=file, **{"width": 80, **options}))
    return file.getvalue().splitlines()


class AsciiFile(StringIO):
    encoding = "ascii"


def test_a_terminal_without_unicode_gets_plain_characters() -> None:
    file = AsciiFile()
    draw(preview(accept({"max_retries": 5}), LIMITS, NOW), Console(file=file, width=80))

    assert file.getvalue().isascii()
    assert file.getvalue().splitlines()[7].endswith("===o===")


@given(policies())
def test_every_policy_can_be_drawn(policy: RetryPolicy) -> None:
    for width in (20, 80, 300):
        lines = drawn(policy, width=width)
        bars = [line.split("  ")[-1] for line in lines if "●" in line]
        assert len(bars) == (policy.max_retries if policy.enabled else 0)
        assert all(bar.count("●") == 1 and len(bar) <= 36 for bar in bars)
