"""Configuration: one typed list of settings, read from flags, environment, file and defaults.

`load()` returns `Settings` or raises `ConfigurationError` with one message per problem.
"""

from perdure.config.addresses import is_loopback_host, new_instance_id
from perdure.config.load import load
from perdure.config.problems import ConfigurationError
from perdure.config.sections import (
    Backoff,
    Engine,
    Limits,
    Log,
    Retention,
    Retry,
    Server,
    Webhooks,
)
from perdure.config.settings import Settings
from perdure.config.show import render_settings

__all__ = [
    "Backoff",
    "ConfigurationError",
    "Engine",
    "Limits",
    "Log",
    "Retention",
    "Retry",
    "Server",
    "Settings",
    "Webhooks",
    "is_loopback_host",
    "load",
    "new_instance_id",
    "render_settings",
]
