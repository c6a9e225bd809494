"""Soundness of the list itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import FrozenInstanceError
from math import isinf

import pytest

from perdure.config import Settings
from perdure.config.declare import Setting, Table, ValueType
from perdure.config.settings import SECTIONS, SETTINGS, TABLES
from perdure.config.show import render_value
from perdure.config.values import read_text, read_value

BARE_NAMES = {
    "DATABASE_URL",
    "HOST_URL",
    "PORT",
    "INSTANCE_ID",
    "RETRY_MAX_RETRIES_LIMIT",
    "RETRY_MAX_DELAY_LIMIT",
    "RETRY_LOOP_INTERVAL_MS",
}

NUMERIC = {ValueType.INTEGER, ValueType.NUMBER, ValueType.DURATION, ValueType.DURATION_LIST}

each_setting = pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)


@each_setting
def test_a_setting_is_described_in_one_sentence(setting: Setting) -> None:
    description = setting.declaration.description

    assert description[0].isupper()
    assert description.endswith(".")
    assert ". " not in description


@each_setting
def test_a_number_is_bounded(setting: Setting) -> None:
    low, high = setting.declaration.within

    assert isinf(low) == isinf(high) == (setting.value_type not in NUMERIC)


@each_setting
def test_a_default_is_allowed_or_described(setting: Setting) -> None:
    if setting.default is None:
        assert setting.declaration.default_text
    else:
        assert read_value(setting, setting.default) == setting.default


@each_setting
def test_a_default_that_is_shown_can_be_typed_back(setting: Setting) -> None:
    if setting.default is not None:
        shown = render_value(setting, setting.default).strip("[]")
        assert read_text(setting, shown) == setting.default


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_is_described(table: Table) -> None:
    assert table.description.endswith(".")


def test_no_two_settings_share_a_variable_or_a_flag() -> None:
    variables = Counter(name for setting in SETTINGS for name in setting.environment_names)
    flags = Counter(setting.declaration.flag for setting in SETTINGS if setting.declaration.flag)

    assert set(variables.values()) == {1}
    assert set(flags.values()) == {1}


def test_only_the_founding_names_work_without_the_prefix() -> None:
    variables = {name for setting in SETTINGS for name in setting.environment_names}

    assert {name for name in variables if not name.startswith("PERDURE_")} == BARE_NAMES


def test_no_variable_of_a_setting_is_taken_for_something_else() -> None:
    variables = {name for setting in SETTINGS for name in setting.environment_names}

    assert not [name for name in variables if name.startswith(("PERDURE_SECRET_", "PERDURE_TEST_"))]
    assert "PERDURE_CONFIG" not in variables


def test_only_backoff_is_optional() -> None:
    assert [section.name for section in SECTIONS if section.optional] == ["backoff"]


def test_settings_cannot_be_changed() -> None:
    settings = Settings()

    with pytest.raises(FrozenInstanceError):
        settings.server.port = 1  # type: ignore[misc]


def test_secrets_are_not_in_the_representation() -> None:
    settings = Settings(secrets={"bank": "hunter2"})

    assert "hunter2" not in repr(settings)
    assert "database_url" not in repr(settings)
