"""Runs the commands of a page in a shell, and compares what they print with what the page shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from time import monotonic

from tests.docs.answers import find_difference
from tests.docs.markdown import Block
from tests.docs.programs import Shell

SECONDS_TO_ANSWER = 30

_CHANGES_SOMETHING = re.compile(r"\s(-d|-X)\s|=\$\(")


def run_block(shell: Shell, block: Block, here: Callable[[str], str]) -> None:
    """Run a block and compare what it prints with what the page shows; a question is asked until it is so."""
    deadline = monotonic() + SECONDS_TO_ANSWER
    while True:
        code, printed = shell.run(here(block.text))
        assert code == 0, f"{block} ended with {code}: {printed}"
        if block.answer is None:
            assert '"type":"urn:perdure:problem' not in printed, f"{block} was refused: {printed}"
            return
        difference = find_difference(block.answer.language, here(block.answer.text), printed)
        if difference is None:
            return
        assert not _CHANGES_SOMETHING.search(block.text), f"{block}: {difference}"
        assert monotonic() < deadline, f"{block}: {difference}"
