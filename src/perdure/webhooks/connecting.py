"""How a connection is made: a name is looked up once, and only an address that was checked is connected to."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from aiohappyeyeballs import AddrInfoType, start_connection

from perdure.webhooks.addresses import parse_address
from perdure.webhooks.failures import NameNotFound, TlsFailed, Unreachable
from perdure.webhooks.guard import BlockedAddress, Guard
from perdure.webhooks.resolver import SystemResolver
from perdure.webhooks.target import Target

#: How long an address has to answer before the next one is tried beside it.
_NEXT_ADDRESS_SECS = 0.25


class Connector:
    """Opens connections to the addresses that its guard lets pass."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._resolver = guard.resolver() or SystemResolver()
        self._tls: ssl.SSLContext | None = None

    async def connect(self, target: Target, protocol: asyncio.Protocol, deadline: float) -> None:
        """Connects the protocol. Raises `BlockedAddress`, `NameNotFound`, `Unreachable`, `TlsFailed` and, at the
        deadline, `TimeoutError`."""
        addresses = await self._look_up(target.host, target.port, deadline)
        try:
            async with asyncio.timeout_at(deadline):
                connected = await start_connection(
                    addresses,
                    happy_eyeballs_delay=_NEXT_ADDRESS_SECS,
                    interleave=1,
                    socket_factory=partial(self._open_socket, target.host),
                )
                await self._attach(connected, target, protocol)
        except BlockedAddress:
            raise
        except TimeoutError as problem:
            # The system's own, which comes earlier, is one more way not to be reached.
            if problem.errno is None:
                raise
            raise Unreachable(problem) from problem
        except ssl.SSLError as problem:
            raise TlsFailed(str(problem)) from problem
        except OSError as problem:
            raise Unreachable(problem) from problem

    async def close(self) -> None:
        await self._resolver.close()

    async def _look_up(self, host: str, port: int, deadline: float) -> list[AddrInfoType]:
        if parse_address(host) is not None:
            return list(_socket_addresses(host, port))
        try:
            async with asyncio.timeout_at(deadline):
                found = await self._resolver.resolve(host, port)
            return [one for address in found for one in _socket_addresses(address, port)]
        except BlockedAddress:
            raise
        except TimeoutError as problem:
            raise NameNotFound(host, "no answer in time") from problem
        except OSError as problem:
            raise NameNotFound(host, problem.strerror or str(problem)) from problem

    def _open_socket(self, host: str, target: AddrInfoType) -> socket.socket:
        """Every connection begins here, whatever way its address came: it is looked at once more."""
        family, kind, protocol, _, (address, port, *_) = target
        if refusals := self._guard.check_address(host, address, port):
            raise BlockedAddress("; ".join(refusals))
        return socket.socket(family=family, type=kind, proto=protocol)

    async def _attach(self, connected: socket.socket, target: Target, protocol: asyncio.Protocol) -> None:
        tls = self._verifying() if target.is_tls else None
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: protocol,
                sock=connected,
                ssl=tls,
                # Certificates hold names without the dot that may end one.
                server_hostname=target.host.rstrip(".") if tls else None,
            )
        except BaseException:
            # The event loop may not have taken charge of it.
            with suppress(OSError):
                connected.close()
            raise

    def _verifying(self) -> ssl.SSLContext:
        """Made once: it reads all the certificates that the system trusts."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


def _socket_addresses(address: str, port: int) -> Iterable[AddrInfoType]:
    """Asks nobody: the address is written in numbers."""
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=flags)
