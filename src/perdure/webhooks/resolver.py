"""Host names become addresses here, and nowhere else."""

from __future__ import annotations

import asyncio
import socket
import sys

from perdure.webhooks.guard import BlockedAddress, Guard, Resolver

#: Addresses of a kind that this machine has none of itself are left out. Windows would leave out localhost, too.
_FLAGS = 0 if sys.platform == "win32" else socket.AI_ADDRCONFIG & getattr(socket, "AI_MASK", socket.AI_ADDRCONFIG)


class SystemResolver:
    """Asks the system, in a thread."""

    async def resolve(self, host: str, port: int, /) -> list[str]:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=_FLAGS)
        return list(dict.fromkeys(_in_numbers(*place) for *_, place in found))

    async def close(self) -> None:
        pass


class CheckedResolver:
    """Looks a name up once and returns exactly the addresses that were checked, or raises `BlockedAddress`."""

    def __init__(self, guard: Guard, lookup: Resolver) -> None:
        self._guard = guard
        self._lookup = lookup

    async def resolve(self, host: str, port: int, /) -> list[str]:
        _refuse(self._guard.check_host(host, port))
        found = await self._lookup.resolve(host, port)
        if not found:
            raise OSError(None, "the name has no addresses")
        for address in found:
            # One bad address among good ones is enough: which of them is connected to is a matter of luck.
            _refuse(self._guard.check_address(host, address, port))
        return found

    async def close(self) -> None:
        await self._lookup.close()


def _in_numbers(address: str, _port: int, _flow: int = 0, scope: int = 0) -> str:
    """With the zone that a link-local address is of no use without."""
    return f"{address}%{scope}" if scope else address


def _refuse(refusals: list[str]) -> None:
    if refusals:
        raise BlockedAddress("; ".join(refusals))
