"""A connector of aiohttp that asks the guard before it resolves, and before it opens a socket."""

from __future__ import annotations

import socket
from typing import Any

from aiohttp import TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult

from tickwork.channel.guard import Guard


class _Resolver(AbstractResolver):
    """Resolves names; each address is checked. `vouched` are the addresses of allowed names."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.vouched: dict[str, str] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._guard.resolve(host, port)
        results: list[ResolveResult] = []
        for kind, _type, proto, _name, where in found:
            if family not in (socket.AF_UNSPEC, kind):
                continue
            if self._guard.is_host_allowed(host):
                self.vouched[str(where[0])] = host
            results.append(
                ResolveResult(
                    hostname=host,
                    host=str(where[0]),
                    port=port,
                    family=kind,
                    proto=proto,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
            )
        return results

    async def close(self) -> None:
        self.vouched.clear()


def guarded_connector(guard: Guard, **options: Any) -> TCPConnector:
    """Names are resolved for every connection: a cached answer would outlive a change."""
    resolver = _Resolver(guard)

    def opened(info: Any) -> socket.socket:
        family, kind, proto, _, where = info
        address = str(where[0])
        guard.check_address(address, resolver.vouched.get(address))
        made = socket.socket(family, kind, proto)
        made.setblocking(False)
        return made

    return TCPConnector(resolver=resolver, use_dns_cache=False, socket_factory=opened, **options)
