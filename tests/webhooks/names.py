"""Name servers that answer what a test tells them to."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence


class FakeNames:
    """For each name a list of answers, each a list of addresses; the last answer is given from then on."""

    def __init__(self, names: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._answers = {name: [list(answer) for answer in answers] for name, answers in names.items()}
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int, /) -> list[str]:
        self.asked.append(host)
        answers = self._answers.get(host)
        if answers is None:
            raise socket.gaierror(socket.EAI_NONAME, f"Name or service not known (port {port})")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def close(self) -> None:
        pass
