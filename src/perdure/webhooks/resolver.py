"""Host names become addresses here, and nowhere else."""

from __future__ import annotations

import asyncio
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from perdure.webhooks.guard import BlockedAddress, Guard, Resolver

#: Addresses of a kind that this machine has none of itself are left out. Windows would leave out localhost, too.
_FLAGS = 0 if sys.platform == "win32" else socket.AI_ADDRCONFIG & getattr(socket, "AI_MASK", socket.AI_ADDRCONFIG)


#: Lookups under way at the same time. A zone that is slow must not keep others, or other work, from their threads.
_THREADS = 128


class SystemResolver:
    """Asks the system, in threads of its own, which begin when they are needed."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="name lookup")

    async def resolve(self, host: str, port: int, /) -> list[str]:
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, flags=_FLAGS)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        return list(dict.fromkeys(_in_numbers(*place) for *_, place in found))

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


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


def _in_numbers(address: Any, _port: Any, _flow: int = 0, scope: int = 0) -> str:
    """With the zone that a link-local address is of no use without."""
    return f"{address}%{scope}" if scope else address


def _refuse(refusals: list[str]) -> None:
    if refusals:
        raise BlockedAddress("; ".join(refusals))
