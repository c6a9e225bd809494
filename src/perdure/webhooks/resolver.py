"""Host names become addresses here, and nowhere else."""

from __future__ import annotations

import socket

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from perdure.webhooks.guard import BlockedAddress, Guard


def make_resolver(guard: Guard, lookup: AbstractResolver | None = None) -> AbstractResolver:
    """A resolver that asks `lookup`, by default the system, and lets `guard` look at every address."""
    return CheckedResolver(guard, lookup or ThreadedResolver())


class CheckedResolver(AbstractResolver):
    """Looks a name up once and returns exactly the addresses that were checked, or raises `BlockedAddress`."""

    def __init__(self, guard: Guard, lookup: AbstractResolver) -> None:
        self._guard = guard
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        _refuse(self._guard.check_host(host, port))
        found = await self._lookup.resolve(host, port, family)
        if not found:
            raise OSError(None, "the name has no addresses")
        for result in found:
            # One bad address among good ones is enough: which of them is connected to is a matter of luck.
            _refuse(self._guard.check_address(host, result["host"], port))
        return [ResolveResult(**{**result, "hostname": host, "port": port}) for result in found]

    async def close(self) -> None:
        await self._lookup.close()


def _refuse(refusals: list[str]) -> None:
    if refusals:
        raise BlockedAddress("; ".join(refusals))
