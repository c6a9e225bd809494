"""`${secret:NAME}` in header values: written by name everywhere, resolved only in the request that leaves."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\{secret:([^}]*)\}")
_SHOWN_NAME_LENGTH = 100
MASK = b"***"
#: What is shorter would be found in harmless text, and is no secret in earnest.
_SHORTEST_MASKED = 4


def _written_forms(value: str) -> set[bytes]:
    """A value as it may come back: as it is, and as JSON writes it."""
    quoted = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    return {form.encode() for form in (value, *quoted, *(form.replace("/", "\\/") for form in quoted))}


class UnknownSecret(ValueError):
    """A header names a secret that is not configured."""


class Secrets:
    """The configured secrets by name. Prints without their values."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})

    def __repr__(self) -> str:
        return f"Secrets({', '.join(sorted(self._values))})"

    def check(self, headers: Mapping[str, str]) -> list[str]:
        """Names in these headers that are not known; empty if all are."""
        return [
            f"header {header[:_SHOWN_NAME_LENGTH]!r} names the secret {name[:_SHOWN_NAME_LENGTH]!r}, which is not "
            "configured; add it to [secrets] or set PERDURE_SECRET_<NAME>"
            for header, value in headers.items()
            for name in _REFERENCE.findall(value)
            if name not in self._values
        ]

    def resolve(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """The headers as they are sent; raises `UnknownSecret`."""
        if not any("${secret:" in value for value in headers.values()):
            return headers
        if unknown := self.check(headers):
            raise UnknownSecret("; ".join(unknown))
        return {name: _REFERENCE.sub(lambda match: self._values[match[1]], value) for name, value in headers.items()}

    def mask(self, headers: Mapping[str, str], answer: bytes) -> bytes:
        """What came back, without the secrets that `headers` name."""
        names = {name for value in headers.values() for name in _REFERENCE.findall(value)}
        values = {form for name in names for form in _written_forms(self._values.get(name, ""))}
        # The longest first: one secret may be the beginning of another.
        for value in sorted(values, key=len, reverse=True):
            if len(value) >= _SHORTEST_MASKED:
                answer = answer.replace(value, MASK)
        return answer


NO_SECRETS = Secrets()
