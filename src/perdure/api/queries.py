"""Reading the query of a request. An empty parameter counts as absent; all problems are reported together."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from starlette.requests import Request

from perdure.api.requests import decode_json, normalize_uuid
from perdure.domain.checks import METADATA_BYTES
from perdure.domain.errors import Invalid, Problem
from perdure.domain.states import LABELS, SHOWN, VALUES
from perdure.engine.intake import encode_json
from perdure.store.listings import Page

DEFAULT_PAGE_SIZE = 50
LARGEST_PAGE_SIZE = 100
LARGEST_NUMBER = 2**62
"""Larger numbers are taken for this one: no database counts further."""
LONGEST_TEXT = 10_000

_NUMBER = re.compile(r"[+-]?[0-9]+")
_UNESCAPED_OFFSET = re.compile(r"(.*[0-9]) ([0-9]{2}:?[0-9]{2})")


class Query:
    """The parameters of one request; `check()` raises what is wrong with those that were read."""

    def __init__(self, request: Request) -> None:
        self._parameters = request.query_params
        self._problems: list[Problem] = []

    def check(self) -> None:
        if self._problems:
            raise Invalid(self._problems)

    def text(self, name: str) -> str | None:
        given = self._parameters.get(name)
        if not given:
            return None
        if "\x00" in given:
            self._refuse(name, "must not contain the NUL character")
            return None
        if len(given) > LONGEST_TEXT:
            self._refuse(name, f"must have at most {LONGEST_TEXT} characters")
            return None
        return given

    def choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        given = self.text(name)
        if given is not None and given not in allowed:
            self._refuse(name, f"must be one of {', '.join(allowed)}")
            return None
        return given

    def choices(self, name: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
        """Words that were given several times, or separated by commas."""
        words = [word.strip() for given in self._parameters.getlist(name) for word in given.split(",")]
        for word in words:
            if word and word not in allowed:
                self._refuse(name, f"must be one of {', '.join(allowed)}, is {word[:40]!r}")
        return tuple(dict.fromkeys(word for word in words if word))

    def number(self, name: str) -> int | None:
        numbers = self.numbers(name)
        return numbers[-1] if numbers else None

    def numbers(self, name: str) -> list[int]:
        """Every whole number that was given under this name."""
        found = []
        for given in self._parameters.getlist(name):
            if not given:
                continue
            if not _NUMBER.fullmatch(given):
                self._refuse(name, f"must be a whole number, is {given[:40]!r}")
            elif len(given.lstrip("+-0")) > 18:
                found.append(-LARGEST_NUMBER if given.startswith("-") else LARGEST_NUMBER)
            else:
                found.append(int(given))
        return found

    def uuid(self, name: str) -> str | None:
        given = self.text(name)
        if given is None:
            return None
        id = normalize_uuid(given)
        if id is None:
            self._refuse(name, "must be a UUID")
        return id

    def moment(self, name: str) -> datetime | None:
        given = self.text(name)
        if given is None:
            return None
        # A plus sign that was not escaped arrives as a space.
        text = _UNESCAPED_OFFSET.sub(r"\1+\2", given) if "T" in given.upper() else given
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is not None:
                return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            self._refuse(name, "must be an RFC 3339 time such as 2030-01-31T12:00:00Z")
        else:
            self._refuse(name, "must name its time zone, for example by a final Z")
        return None

    def statuses(self, name: str) -> tuple[str, ...]:
        """Statuses as they are stored, `paused` among them."""
        found: dict[str, None] = {}
        for given in self._parameters.getlist(name):
            for part in given.split(","):
                word = part.strip()
                value = word if word in LABELS else VALUES.get(word)
                if value is not None:
                    found[value] = None
                elif word:
                    self._refuse(
                        name, f"must be one of {', '.join(LABELS[value] for value in SHOWN)}, is {word[:40]!r}"
                    )
        return tuple(found)

    def metadata(self, name: str) -> str | None:
        """JSON text of an object to be contained."""
        given = self.text(name)
        if given is None:
            return None
        try:
            value = decode_json(given)
        except ValueError as error:
            self._refuse(name, str(error))
            return None
        if not isinstance(value, dict):
            self._refuse(name, 'must be a JSON object such as {"customer": 7}')
            return None
        return encode_json(self._problems, name, value, METADATA_BYTES)

    def page(self) -> Page:
        number = max(0, self.number("page") or 0)
        size = self.number("page_size") or 0
        size = min(size, LARGEST_PAGE_SIZE) if size > 0 else DEFAULT_PAGE_SIZE
        return Page(min(number, LARGEST_NUMBER // LARGEST_PAGE_SIZE), size)

    def _refuse(self, name: str, message: str) -> None:
        self._problems.append(Problem(name, message))
