"""Name servers that answer what a test tells them to."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from aiohttp.abc import AbstractResolver, ResolveResult


class FakeNames(AbstractResolver):
    """For each name a list of answers, each a list of addresses; the last answer is given from then on."""

    def __init__(self, names: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._answers = {name: [list(answer) for answer in answers] for name, answers in names.items()}
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.asked.append(host)
        answers = self._answers.get(host)
        if answers is None:
            raise socket.gaierror(socket.EAI_NONAME, f"Name or service not known ({family})")
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=0,
            )
            for address in found
        ]

    async def close(self) -> None:
        pass
