"""Refuses outgoing requests to addresses that a tenant must not reach (SSRF).

Every sink that connects to an address of a tenant uses one `Guard`, twice:

1. `check_url` before the request: scheme, user info, port, and the spelling of the host.
2. `connector` for the connection: the address that is really connected to, whether it comes from
   DNS or stands in the URL. A name with one forbidden address is refused as a whole, and so is a
   name that cannot be resolved.

Redirects and proxies are the sink's to switch off.

An address inside another one is unwrapped: IPv4 that is mapped, compatible or translated in IPv6,
6to4, Teredo, NAT64 and ISATAP. The outer and every inner address must be allowed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from tickwork.errors import FieldError, InvalidInput

if TYPE_CHECKING:
    from aiohttp import TCPConnector

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

HTTPS_PORT = 443
PRIVILEGED_PORT_MAX = 1_023
URL_LENGTH_MAX = 2_048

URLS_KEPT = 4_096
"""Number of URLs whose spelling was checked and is not checked again."""

LOOKUP_SECONDS = 10.0
"""Seconds that a name server may take."""

LOOKUP_THREADS_MAX = 256
"""Maximum number of names that are looked up at once."""

LOOKUPS_OF_DOMAIN_MAX = 16
"""Maximum number of them with the same last two labels: one hanging name server answers for all
names of its domain, and their number costs nothing."""

LOOKUPS_WAITING_MAX = 10_000

_log = logging.getLogger(__name__)
_FORBIDDEN = tuple(
    ip_network(name)
    for name in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by a provider's customers
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's control address
        "169.254.0.0/16",  # link-local, with the clouds' metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, with broadcast
        "2001::/23",  # protocol assignments, with Teredo, ORCHID and benchmarks
        "2001:db8::/32",  # documentation
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
    )
)
_GLOBAL_IPV6 = IPv6Network("2000::/3")
"""The only part of IPv6 that is assigned to public hosts."""

_NAT64 = IPv6Network("64:ff9b::/96")
_TEREDO = IPv6Network("2001::/32")
_IPV4_IN_LOW_BITS = (
    IPv6Network("::/96"),  # compatible
    IPv6Network("::ffff:0:0/96"),  # mapped
    IPv6Network("::ffff:0:0:0/96"),  # translated
    _NAT64,
)
_ISATAP_MARKS = (0x0000_5EFE, 0x0200_5EFE)
_LOW = 0xFFFF_FFFF

_NAME = re.compile(r"(?=.{1,253}\Z)(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*\Z")
_AUTHORITY = re.compile(r"://|[/?#]")
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\Z")


class Refused(OSError):
    """The guard refuses an address. An `OSError`, so that HTTP and SMTP clients treat it as a
    failed connection."""


class Guard:
    """Decides which addresses may be reached.

    `allowed` are hosts and networks that are reachable although the rules forbid them, also over
    plain HTTP and on any port: `("localhost", "10.1.0.0/16")`.
    """

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._networks: list[Network] = []
        self._hosts: set[str] = set()
        self._lookups = _Lookups()
        self._fault_of = lru_cache(URLS_KEPT)(self._fault)
        for target in allowed:
            self._allow(target.strip())

    def check_url(self, url: str, *, field: str = "url") -> None:
        """Raises `InvalidInput` for a URL that may not be requested, whatever its name resolves
        to."""
        given: Any = url
        if not isinstance(given, str) or not 1 <= len(given) <= URL_LENGTH_MAX:
            fault: str | None = f"must be a URL of at most {URL_LENGTH_MAX} characters"
        else:
            fault = self._fault_of(given)
        if fault is not None:
            raise InvalidInput([FieldError(field, fault)])

    def check_address(self, address: str, host: str | None = None) -> None:
        """Raises `Refused` for an address that may not be connected to. `host` is the name that
        resolved to it."""
        if host is not None and self.is_host_allowed(host):
            return
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            raise Refused(f"{address!r} is not an IP address") from None
        if any(found in network for network in self._networks):
            return
        if is_public(found):
            return
        if host is None:
            raise Refused(f"{address} is not a public address; TICKWORK_ALLOW_TARGETS can allow it")
        # A tenant reads the error: names that lead inside do not say where. The operator reads it.
        _log.debug("%s resolves to %s, which is refused", host, address)
        what = "an address that is not public"
        raise Refused(f"{host} resolves to {what}; TICKWORK_ALLOW_TARGETS can allow it")

    def is_host_allowed(self, host: str) -> bool:
        """Whether a name may be reached whatever it resolves to."""
        return host.lower().rstrip(".") in self._hosts

    async def resolve(self, host: str, port: int) -> list[tuple[Any, ...]]:
        """The addresses of a host, as `getaddrinfo` returns them. Raises `Refused` if one of them
        is forbidden, and `OSError` if there is none."""
        found = await self._lookups.find(host, port)
        if not found:
            raise OSError(f"{host} has no address")
        for *_, where in found:
            self.check_address(str(where[0]), host)
        return found

    def connector(self, **options: Any) -> TCPConnector:
        """A connector of aiohttp that connects to allowed addresses only."""
        from tickwork.channel.guarded_connector import guarded_connector

        return guarded_connector(self, **options)

    def _allow(self, text: str) -> None:
        if not text:
            return
        try:
            self._networks.append(ip_network(text, strict=False))
        except ValueError:
            host = text.lower().rstrip(".")
            if "/" in text or not _NAME.match(host):
                fault = f"{text!r} is neither a host nor a network such as 10.0.0.0/8"
                raise InvalidInput([FieldError("allow_targets", fault)]) from None
            self._hosts.add(host)

    def _fault(self, url: str) -> str | None:
        """What is wrong with a URL, or None."""
        target = _read_target(url)
        if isinstance(target, str):
            return target
        scheme, host, port, address = target
        if self._is_allowed(host, address):
            return None
        if address is not None and not is_public(address):
            return f"{address} is not a public address; TICKWORK_ALLOW_TARGETS can allow it"
        if scheme == "http":
            return "must start with https://; TICKWORK_ALLOW_TARGETS can allow http for a host"
        if port <= PRIVILEGED_PORT_MAX and port != HTTPS_PORT:
            return f"must not use port {port}; TICKWORK_ALLOW_TARGETS can allow it for a host"
        return None

    def _is_allowed(self, host: str, address: Address | None) -> bool:
        if address is not None:
            return any(address in network for network in self._networks)
        return self.is_host_allowed(host)


class _Lookups:
    """Looks names up in threads of its own: a name server that hangs holds up nothing else in this
    process, and the names of its domain take few of the threads. Deliveries to one host share a
    lookup while it runs, so that it takes one thread."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._running: dict[object, asyncio.Future[list[Any]]] = {}
        self._turns: WeakValueDictionary[object, asyncio.Semaphore] = WeakValueDictionary()

    async def find(self, host: str, port: int) -> list[tuple[Any, ...]]:
        """As `getaddrinfo`. Raises `OSError`, also if it takes too long."""
        loop = asyncio.get_running_loop()
        name = host, port, loop
        found = self._running.get(name)
        if found is None:
            if len(self._running) >= LOOKUPS_WAITING_MAX:
                raise OSError("too many names are looked up at once")
            found = self._running[name] = asyncio.create_task(self._look_up(host, port))
            found.add_done_callback(lambda _: self._running.pop(name, None))
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                return await asyncio.shield(found)
        except TimeoutError:
            raise OSError(f"no answer of a name server within {LOOKUP_SECONDS:g} s") from None

    async def _look_up(self, host: str, port: int) -> list[tuple[Any, ...]]:
        """Waits for its turn, and then keeps it until the thread is free, however long that takes.
        Nobody may be left who waits for the result; then its error is of no interest."""
        loop = asyncio.get_running_loop()
        domain = tuple(host.lower().rstrip(".").rsplit(".", 2)[-2:])
        turn = self._turns.setdefault((domain, loop), asyncio.Semaphore(LOOKUPS_OF_DOMAIN_MAX))
        async with asyncio.timeout(LOOKUP_SECONDS):
            await turn.acquire()
        try:
            self._threads = self._threads or ThreadPoolExecutor(LOOKUP_THREADS_MAX, "tickwork-dns")
            return await loop.run_in_executor(
                self._threads,
                partial(socket.getaddrinfo, host, port, 0, socket.SOCK_STREAM, socket.IPPROTO_TCP),
            )
        finally:
            turn.release()


def host_of(url: str) -> str:
    """The host of a URL; empty if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_public(address: Address) -> bool:
    """Whether an address, and every address inside it, belongs to a public host."""
    if isinstance(address, IPv6Address) and address not in _GLOBAL_IPV6 and address not in _NAT64:
        return False
    if any(address in network for network in _FORBIDDEN if network.version == address.version):
        return False
    return all(is_public(inner) for inner in _inner(address))


class _Target(NamedTuple):
    """Where a URL leads. `address` is None if the host is a name."""

    scheme: str
    host: str
    port: int
    address: Address | None


def _read_target(url: str) -> _Target | str:
    """The target of a URL, or what is wrong with its spelling."""
    from yarl import URL

    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return "must contain printable ASCII characters only, without spaces and backslashes"
    try:
        parsed = URL(url)
        host, port = (parsed.raw_host or "").lower(), parsed.port
        has_user = parsed.raw_user is not None or parsed.raw_password is not None
    except ValueError as error:
        return f"is not a URL: {error}"
    if parsed.scheme not in ("https", "http") or "://" not in url:
        return "must start with https://"
    authority = _AUTHORITY.split(url, 2)[1]
    if has_user or "@" in authority:
        return "must not contain a user or a password; use a header"
    if port is None or not 0 < port < 65_536:
        return "has no valid port"
    address = _literal(host)
    is_name = _NAME.match(host.rstrip(".")) and not _ends_in_number(host)
    if address is None and (not is_name or "[" in authority):
        return f"has no valid host: {host!r}"
    return _Target(parsed.scheme, host, port, address)


def _inner(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses inside an IPv6 address."""
    if isinstance(address, IPv4Address):
        return
    bits = int(address)
    if any(address in network for network in _IPV4_IN_LOW_BITS):
        yield IPv4Address(bits & _LOW)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address in _TEREDO:
        yield IPv4Address(bits >> 64 & _LOW)
        yield IPv4Address(~bits & _LOW)
    if bits >> 32 & _LOW in _ISATAP_MARKS:
        yield IPv4Address(bits & _LOW)


def _literal(host: str) -> Address | None:
    """The address that a host of a URL is, or None for a name."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def _ends_in_number(host: str) -> bool:
    """Whether a host is an old spelling of an IPv4 address: `0x7f.1`, `2130706433`, `127.1`."""
    return _NUMBER.match(host.rstrip(".").rpartition(".")[2]) is not None
