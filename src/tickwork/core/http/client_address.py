"""Where a request comes from: the address of its client, and whether that is this machine.

A server believes what a proxy says about a client (`X-Forwarded-For`) only if the operator trusts
that proxy. What anybody may send can only take trust away: a request with such a header is never
one of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address, ip_network

PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-real-ip")
"""Headers with which a proxy names its client."""

FORWARDED_MAX = 100
"""Number of addresses in `X-Forwarded-For` that are looked at."""


def is_loopback(host: str) -> bool:
    """Whether a host to listen on is this machine only."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def names_loopback(host: str | None) -> bool:
    """Whether the header `Host` of a request names this machine. A page of another site can make
    its own name lead here (DNS rebinding), but a browser sends that name."""
    if host is None:
        return False
    name = host.strip().lower()
    if name.startswith("["):
        return is_loopback(name[1:].partition("]")[0])
    return is_loopback(name.partition(":")[0].rstrip("."))


class TrustedProxies:
    """The proxies that an operator trusts, by their addresses and networks."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self._networks = [ip_network(text, strict=False) for text in texts]

    def has(self, address: str | None) -> bool:
        """Whether an address is that of a trusted proxy."""
        try:
            found = ip_address((address or "").strip().strip("[]"))
        except ValueError:
            return False
        mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
        return any((mapped or found) in network for network in self._networks)

    def client(self, peer: str | None, forwarded_for: str | None) -> str | None:
        """The address of a client: the peer of the connection, or who a trusted proxy says it had.
        Of several addresses the last one counts that is no trusted proxy."""
        client = peer
        for hop in reversed((forwarded_for or "").split(",")[-FORWARDED_MAX:]):
            if not self.has(client) or not hop.strip():
                break
            client = hop.strip()
        return client
