"""Reading values of every type."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.config.declare import Setting
from perdure.config.settings import SETTINGS
from perdure.config.values import format_number, read_text, read_value

BY_NAME = {setting.name: setting for setting in SETTINGS}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        *(("server.api", word, True) for word in ("true", "1", "yes", "on", "TRUE", " Yes ")),
        *(("server.api", word, False) for word in ("false", "0", "no", "off", "Off")),
        ("server.port", "0", 0),
        ("server.port", " +80 ", 80),
        ("backoff.backoff_multiplier", "1", 1.0),
        ("backoff.backoff_multiplier", "1.25", 1.25),
        ("engine.claim_timeout_secs", "90", 90.0),
        ("engine.claim_timeout_secs", "1h30m", 5400.0),
        ("server.kinds", "a", ("a",)),
        ("server.kinds", " a , b,,", ("a", "b")),
        ("webhooks.delivery_retry", "5,1m", (5.0, 60.0)),
        ("log.format", "JSON", "json"),
        ("server.host", " ::1 ", "::1"),
    ],
)
def test_text_is_read_as_the_setting_means_it(name: str, text: str, expected: object) -> None:
    value = read_text(BY_NAME[name], text)

    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("server.api", "maybe"),
        ("server.port", "1.0"),
        ("server.port", "65536"),
        ("server.port", "٨٠"),
        ("server.port", "9" * 5000),
        ("backoff.backoff_multiplier", "nan"),
        ("backoff.backoff_multiplier", "inf"),
        ("backoff.backoff_multiplier", "-1"),
        ("engine.claim_timeout_secs", "0"),
        ("engine.claim_timeout_secs", "nan"),
        ("engine.claim_timeout_secs", "soon"),
        ("webhooks.delivery_retry", ","),
        ("webhooks.delivery_retry", "5,soon"),
        ("log.format", "xml"),
        ("server.host", " "),
    ],
)
def test_text_that_is_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"^must be "):
        read_text(BY_NAME[name], text)


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        ("server.port", 80, 80),
        ("backoff.backoff_multiplier", 2, 2.0),
        ("engine.claim_timeout_secs", 120, 120.0),
        ("engine.claim_timeout_secs", "2m", 120.0),
        ("webhooks.delivery_retry", [5, "1m", 0.5], (5.0, 60.0, 0.5)),
        ("server.kinds", [], ()),
    ],
)
def test_values_of_the_file(name: str, raw: object, expected: object) -> None:
    value = read_value(BY_NAME[name], raw)

    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("server.port", 80.0),
        ("server.port", True),
        ("server.port", 10**400),
        ("backoff.backoff_multiplier", True),
        ("backoff.backoff_multiplier", "2"),
        ("backoff.backoff_multiplier", 10**400),
        ("backoff.backoff_multiplier", float("inf")),
        ("server.api", 1),
        ("server.api", "true"),
        ("engine.claim_timeout_secs", True),
        ("engine.claim_timeout_secs", 10**400),
        ("engine.claim_timeout_secs", float("nan")),
        ("server.kinds", "etl"),
        ("server.kinds", ["etl", " "]),
        ("webhooks.delivery_retry", 5),
        ("webhooks.delivery_retry", [[5]]),
        ("server.host", 127),
    ],
)
def test_values_of_the_file_that_are_refused(name: str, raw: object) -> None:
    with pytest.raises(ValueError, match=r"^must be "):
        read_value(BY_NAME[name], raw)


@given(setting=st.sampled_from(SETTINGS), text=st.text())
def test_any_text_is_read_or_refused_with_what_is_allowed(setting: Setting, text: str) -> None:
    complaint = "must be nothing else"
    try:
        read_text(setting, text)
    except ValueError as error:
        complaint = str(error)

    assert complaint.startswith("must be ")


@given(st.integers(-(10**9), 10**9))
def test_whole_numbers_are_shown_without_a_fraction(number: int) -> None:
    assert format_number(float(number)) == str(number)


def test_fractions_are_shown_as_they_are() -> None:
    assert format_number(0.1) == "0.1"
