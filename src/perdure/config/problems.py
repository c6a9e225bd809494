"""What is said about a bad configuration, without giving away what is secret."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

MASK = "***"
LONGEST_SHOWN_VALUE = 80

_URL_PASSWORD = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://[^:/?#@]*):(.*)@", re.DOTALL)
_QUERY_PASSWORD = re.compile(r"([?&][^=&]*password=)[^&#]*", re.IGNORECASE)
_SECRET_NAME = re.compile(r"secret|token|password|credential|(^|_)key($|_)", re.IGNORECASE)


class ConfigurationError(Exception):
    """The configuration cannot be used; `problems` has one message per problem, all of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems: list[str] = list(problems)
        count = len(self.problems)
        heading = "The configuration has a problem:" if count == 1 else f"The configuration has {count} problems:"
        super().__init__("\n".join([heading, *(f"- {problem}" for problem in self.problems)]))

    def __reduce__(self) -> tuple[type[ConfigurationError], tuple[list[str]]]:
        return type(self), (self.problems,)


def mask_password(text: str) -> str:
    """The text with the password of a URL, before the @ or in the query, replaced by ***."""
    if "://" not in text and "@" in text:
        return MASK
    # Up to the last @, since a password may hold one unescaped: hiding too much is the safe mistake.
    return _QUERY_PASSWORD.sub(rf"\1{MASK}", _URL_PASSWORD.sub(rf"\1:{MASK}@", text))


def looks_secret(name: str) -> bool:
    """Whether a name that is not in the list suggests that its value must not be shown."""
    return _SECRET_NAME.search(name) is not None


def show_value(value: object, *, hidden: bool = False) -> str:
    """A value as a message shows it: short, on one line, and masked if `hidden`."""
    if hidden:
        return MASK
    if isinstance(value, Mapping):
        return "{…}"
    if isinstance(value, (list, tuple)):
        return _shorten("[" + ", ".join(show_value(item) for item in value) + "]")
    if isinstance(value, str):
        return _shorten(json.dumps(mask_password(value), ensure_ascii=False))
    if isinstance(value, bool):
        return "true" if value else "false"
    return _shorten(str(value))


def describe_problem(name: str, value: str, source: str, complaint: str) -> str:
    """One message: the key, the value as shown, where it came from, and what is allowed."""
    return f"{name} = {value} ({source}): {complaint}"


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN_VALUE else text[: LONGEST_SHOWN_VALUE - 1] + "…"
