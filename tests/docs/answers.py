"""Compares an answer as a page shows it with the one that came.

What differs from run to run matches anything of its kind: ids, times, numbers with a fraction. `…` stands for
whatever there is: as text for any value, as a member for further members, as an entry for further entries, as a line
for further lines.
"""

from __future__ import annotations

import json
import re
from typing import Any

ANYTHING = "…"
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LINE_OF_ITS_OWN = re.compile(rf"^{ANYTHING}\n", re.MULTILINE)
#: How wide a column is depends on what stands in it.
_PADDING = re.compile(r"(?<=\S) +")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def find_difference(language: str, shown: str, given: str) -> str | None:
    """The first thing in which an answer is not as it is shown; None if there is none."""
    if language == "json":
        try:
            came = json.loads(given)
        except ValueError:
            return f"no JSON came: {given[:500]!r}"
        return _compare(json.loads(shown), came, "answer")
    if language == "http":
        return _compare_http(shown, given)
    return None if _matches(shown.strip(), given.strip()) else f"shown: {shown!r}, came: {given!r}"


def _compare(shown: Any, given: Any, place: str) -> str | None:
    if shown == ANYTHING:
        return None
    if isinstance(shown, dict) and isinstance(given, dict):
        return _compare_objects(shown, given, place)
    if isinstance(shown, list) and isinstance(given, list):
        return _compare_arrays(shown, given, place)
    if isinstance(shown, str) and isinstance(given, str):
        same = _matches(shown, given)
    elif isinstance(shown, float) and not shown.is_integer():
        same = isinstance(given, int | float)
    else:
        same = type(shown) is type(given) and shown == given
    return None if same else f"{place} is shown as {shown!r}, and came as {given!r}"


def _compare_objects(shown: dict[str, Any], given: dict[str, Any], place: str) -> str | None:
    named = {name: value for name, value in shown.items() if name != ANYTHING}
    missing = sorted(named.keys() - given.keys())
    if missing:
        return f"{place} has no {missing}; it is {given!r}"
    more = sorted(given.keys() - named.keys())
    if more and ANYTHING not in shown:
        return f"{place} also has {more}, which is not shown"
    differences = (_compare(value, given[name], f"{place}.{name}") for name, value in named.items())
    return next((difference for difference in differences if difference), None)


def _compare_arrays(shown: list[Any], given: list[Any], place: str) -> str | None:
    open_ended = bool(shown) and shown[-1] == ANYTHING
    wanted = shown[:-1] if open_ended else shown
    if len(given) < len(wanted) or (len(given) > len(wanted) and not open_ended):
        return f"{place} is shown with {len(wanted)} entries, and came with {len(given)}: {given!r}"
    pairs = zip(wanted, given, strict=False)
    differences = (_compare(one, other, f"{place}[{index}]") for index, (one, other) in enumerate(pairs))
    return next((difference for difference in differences if difference), None)


def _compare_http(shown: str, given: str) -> str | None:
    """The status line and every header that is shown, then the body; headers that are not shown may come."""
    shown_head, _, shown_body = shown.partition("\n\n")
    given_head, _, given_body = given.replace("\r\n", "\n").partition("\n\n")
    came = [line.lower() for line in given_head.splitlines()]
    for line in shown_head.strip().splitlines():
        if not any(_matches(line.lower(), other) for other in came):
            return f"{line!r} is shown, but came not: {given_head!r}"
    return find_difference("json", shown_body, given_body) if shown_body.strip() else None


def _matches(shown: str, given: str) -> bool:
    if ANYTHING in shown:
        lines = _LINE_OF_ITS_OWN.split(f"{_general(shown)}\n")
        pattern = r"(?:.*\n)*".join(".*".join(map(re.escape, part.split(ANYTHING))) for part in lines)
        return re.fullmatch(pattern, f"{_general(given)}\n") is not None
    return _general(shown) == _general(given)


def _general(text: str) -> str:
    return _PADDING.sub(" ", _TIME.sub("<time>", _ID.sub("<id>", text)))
