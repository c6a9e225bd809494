"""The fields of a retry policy as people spell them: found, told apart, and merged with a named policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from perdure.domain.errors import Problem

#: Every field, and how it may be spelled besides.
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "strategy": ("retry_strategy",),
    "max_retries": ("max_attempts", "maxAttempts"),
    "initial_delay_secs": ("initial_delay_seconds", "initialDelaySeconds"),
    "backoff_multiplier": ("multiplier",),
    "max_delay_secs": ("max_delay_seconds", "maxDelaySeconds"),
    "delay_secs": ("delay_seconds", "delaySeconds"),
    "schedule": ("custom_schedule", "customSchedule"),
    "first_delays": (),
    "retry_on": ("retryOn",),
    "ignore": ("ignore_exceptions", "ignoreExceptions"),
    "jitter": (),
    "jitter_ratio": (),
    "expires_at": ("expiresAt",),
    "expires_after_secs": (),
    "on_exhausted": (),
    "enabled": (),
    "name": (),
}


def index_spellings(spellings: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The field that each spelling means."""
    return {spelling: field for field, others in spellings.items() for spelling in (field, *others)}


FIELD_OF_SPELLING = index_spellings(SPELLINGS)

#: A field given beside a name also takes the place of this one of the named policy.
_REPLACES = {
    "initial_delay_secs": "first_delays",
    "expires_at": "expires_after_secs",
    "expires_after_secs": "expires_at",
}

_UNKNOWN_REPORTED = 10
_NAMES_LISTED = 20
_SHOWN_LENGTH = 80


@dataclass(frozen=True, slots=True)
class Given:
    """A value that somebody wrote, and where."""

    value: Any
    field: str
    """The place in the request."""
    policy: str | None = None
    """The named policy that the value stands in, if the place only names it."""
    place: str = ""
    """The place in that policy."""

    def problem(self, message: str) -> Problem:
        if self.policy is None:
            return Problem(self.field, message)
        place = f"{self.place} " if self.place else ""
        return Problem(self.field, f"policy {plain_text(self.policy)!r}: {place}{message}")

    def member(self, name: str, value: Any) -> Given:
        """A member of the value, which is an object."""
        around = self.field if self.policy is None else self.place
        return self._part(f".{name}" if around else name, value)

    def entry(self, index: int, value: Any) -> Given:
        """An entry of the value, which is a list."""
        return self._part(f"[{index}]", value)

    def _part(self, suffix: str, value: Any) -> Given:
        if self.policy is None:
            return Given(value, f"{self.field}{suffix}")
        return Given(value, self.field, self.policy, f"{self.place}{suffix}")


@dataclass(frozen=True, slots=True)
class GivenPolicy:
    """The fields of a policy by their canonical names."""

    fields: Mapping[str, Given]
    name: str | None
    #: A name that nobody knows could have brought any field: none is missing then.
    complete: bool


def gather_fields(
    value: Any, path: str, named: Mapping[str, Mapping[str, Any]], problems: list[Problem]
) -> GivenPolicy | None:
    """The fields of `value`, an object or a name, over those of the policy that it names.

    None if it is neither.
    """
    if isinstance(value, str):
        return _gather_named(Given(value, path), {}, named, problems)
    if not isinstance(value, Mapping):
        problems.append(Problem(path, "must be an object with the fields of a policy, or the name of one"))
        return None
    own = gather_members(Given(value, path), FIELD_OF_SPELLING, problems)
    name = own.pop("name", None)
    if name is None:
        return GivenPolicy(own, None, complete=True)
    if not isinstance(name.value, str):
        problems.append(name.problem("must be the name of a policy"))
        return GivenPolicy(own, None, complete=False)
    return _gather_named(name, own, named, problems)


def gather_members(given: Given, field_of_spelling: Mapping[str, str], problems: list[Problem]) -> dict[str, Given]:
    """The members of an object by their canonical names; unknown and double ones become problems.

    Null is absent.
    """
    members: dict[str, Given] = {}
    first_spelling: dict[str, str] = {}
    unknown = 0
    for spelling, value in given.value.items():
        field = field_of_spelling.get(spelling)
        if field is None:
            unknown += 1
            if unknown <= _UNKNOWN_REPORTED:
                member = given.member(plain_text(str(spelling)), value)
                problems.append(member.problem(f"is no known field{_hint(str(spelling), field_of_spelling)}"))
        elif value is None:
            continue
        elif field in members:
            member = given.member(spelling, value)
            problems.append(member.problem(f"means the same as {first_spelling[field]}; give one of them"))
        else:
            members[field] = given.member(spelling, value)
            first_spelling[field] = spelling
    if unknown > _UNKNOWN_REPORTED:
        problems.append(given.problem(f"has {unknown - _UNKNOWN_REPORTED} more fields that do not exist"))
    return members


def plain_text(text: str) -> str:
    """Text from outside, cut and made fit to be shown."""
    return text[:_SHOWN_LENGTH].encode("utf-8", "replace").decode()


def _gather_named(
    name: Given, own: Mapping[str, Given], named: Mapping[str, Mapping[str, Any]], problems: list[Problem]
) -> GivenPolicy:
    if name.value not in named:
        problems.append(name.problem(_describe_unknown(name.value, named)))
        return GivenPolicy(own, None, complete=False)
    template = Given(named[name.value], name.field, name.value)
    members = gather_members(template, FIELD_OF_SPELLING, problems)
    if "name" in members:
        problems.append(template.problem("names another policy itself; write its fields out"))
        del members["name"]
    for field in own:
        members.pop(_REPLACES.get(field, field), None)
    return GivenPolicy({**members, **own}, name.value, complete=True)


def _describe_unknown(name: str, named: Mapping[str, Mapping[str, Any]]) -> str:
    text = f"there is no policy named {plain_text(name)!r}"
    if not named:
        return f"{text}; none is configured"
    names = sorted(named)
    more = "" if len(names) <= _NAMES_LISTED else f" and {len(names) - _NAMES_LISTED} more"
    return f"{text}; there are: {', '.join(map(plain_text, names[:_NAMES_LISTED]))}{more}"


def _hint(spelling: str, known: Iterable[str]) -> str:
    suggestion = _suggest(_letters(spelling[:_SHOWN_LENGTH]), tuple(known))
    return f"; did you mean {suggestion}?" if suggestion is not None else ""


@lru_cache(maxsize=1024)
def _suggest(letters: str, spellings: tuple[str, ...]) -> str | None:
    by_letters: dict[str, str] = {}
    for spelling in spellings:
        by_letters.setdefault(_letters(spelling), spelling)
    # Comparing in earnest is slow, and a request can hold very many unknown fields.
    alike = [known for known in by_letters if _may_be_alike(letters, known)]
    matches = get_close_matches(letters, alike, n=1, cutoff=0.7)
    return by_letters[matches[0]] if matches else None


def _may_be_alike(first: str, second: str) -> bool:
    return abs(len(first) - len(second)) <= 4 and len(set(first) ^ set(second)) <= 4


def _letters(spelling: str) -> str:
    """What is left of a name when case and separators do not count."""
    return spelling.replace("_", "").replace("-", "").lower()
