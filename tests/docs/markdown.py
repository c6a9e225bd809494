"""Reads the parts of a Markdown page that can be checked: headings, links, fenced blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ANSWERS = ("json", "http", "text")
_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(?P<level>#{1,6}) +(?P<title>.+?)\s*$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"`[^`\n]+`")
#: Commands that install things; .ci/run executes the second one.
_MARKED = re.compile(r"<!-- (start|test)-command.*?<!-- /\1-command -->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `answer` is the one that stands right behind it, if there is one."""

    page: str
    line: int
    language: str
    text: str
    answer: Block | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Page:
    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @cached_property
    def prose(self) -> str:
        """The page without its blocks, in as many lines."""
        return _FENCE.sub(lambda match: "\n" * match[0].count("\n"), self.text)

    @cached_property
    def blocks(self) -> list[Block]:
        """Every block, those between markers left out."""
        text = _MARKED.sub(lambda match: "\n" * match[0].count("\n"), self.text)
        found: list[Block] = []
        following: tuple[int, Block] | None = None
        for match in reversed(list(_FENCE.finditer(text))):
            answer = None
            if following is not None and not text[match.end() : following[0]].strip():
                answer = following[1] if following[1].language in ANSWERS else None
            line = text.count("\n", 0, match.start()) + 1
            block = Block(self.name, line, match["language"], match["text"], answer)
            found.append(block)
            following = (match.start(), block)
        return found[::-1]

    @cached_property
    def headings(self) -> list[str]:
        return [match["title"] for match in _HEADING.finditer(self.prose)]

    @cached_property
    def anchors(self) -> set[str]:
        """What a link can point to, named as code hosts name it."""
        found: set[str] = set()
        for title in self.headings:
            slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            number = 0
            while (anchor := slug if number == 0 else f"{slug}-{number}") in found:
                number += 1
            found.add(anchor)
        return found

    @cached_property
    def links(self) -> list[str]:
        return [match["target"] for match in _LINK.finditer(_CODE.sub("", self.prose))]

    @cached_property
    def code(self) -> set[str]:
        """Everything that is set as code within a sentence."""
        return {match[0].strip("`") for match in _CODE.finditer(self.prose)}

    def section(self, heading: str) -> str:
        """What stands under a heading, up to the next one of its level or above."""
        heads = list(_HEADING.finditer(self.prose))
        for index, head in enumerate(heads):
            if head["title"] == heading:
                later = (other for other in heads[index + 1 :] if len(other["level"]) <= len(head["level"]))
                end = next((other.start() for other in later), len(self.prose))
                return self.prose[head.end() : end]
        raise KeyError(f"{self.name} has no heading {heading!r}")


def page(name: str) -> Page:
    return Page(ROOT / name)


def find_pages() -> Iterator[Page]:
    """Every page of the repository."""
    yield from (Page(path) for path in sorted(ROOT.glob("*.md")))
    for folder in ("docs", "bench"):
        yield from (Page(path) for path in sorted((ROOT / folder).rglob("*.md")))
