"""How many requests callers may make: by key, by tenant, and with wrong keys by address.

`Rates` counts in the memory of one process. A rate may be used ahead by some seconds: a caller that
was quiet may make so many requests at once. The caller of these functions gives the time.
"""

from __future__ import annotations

from collections.abc import Hashable
from ipaddress import IPv6Address, ip_address

from msgspec import Struct

BURST_SECONDS = 2.0
"""Seconds' worth of requests that may come at once."""

CALLERS_MAX = 20_000
"""Maximum number of callers that are remembered; beyond it those within their rate are dropped."""

WRONG_KEYS_BURST_SECONDS = 20.0
"""Seconds' worth of wrong keys that may come at once."""

WRONG_KEY_DELAY_SHARE = 0.1
"""Share of the time used ahead by which the next wrong key of an address is answered later."""

REFUSED_METRIC = "tickwork_http_refused"
"""Name of the counter of requests that were refused, by reason."""

_NETWORK_BITS = 64
_ROUNDING_SECONDS = 1e-6


class RequestRates(Struct, frozen=True, kw_only=True):
    """Requests a second of one key, and of all keys of one tenant, in one process; wrong keys a
    second from one address, after the first ones."""

    key_per_second: float = 2_000.0
    tenant_per_second: float = 5_000.0
    wrong_keys_per_second: float = 1.0


class Rates:
    """Until when each caller has used its rate."""

    def __init__(self, burst_seconds: float = BURST_SECONDS) -> None:
        self._burst_seconds = burst_seconds
        self._used_until: dict[Hashable, float] = {}

    def wait_seconds(self, caller: Hashable, now: float) -> float:
        """Seconds until the caller may make a request; 0 if it may now."""
        ahead_seconds = self._used_until.get(caller, now) - now
        return max(ahead_seconds - self._burst_seconds - _ROUNDING_SECONDS, 0.0)

    def count(self, caller: Hashable, rate: float, now: float) -> None:
        """Counts a request."""
        if len(self._used_until) >= CALLERS_MAX and caller not in self._used_until:
            self._forget(now)
        used_until = max(self._used_until.get(caller, now), now)
        self._used_until[caller] = used_until + 1.0 / rate

    def take(self, caller: Hashable, rate: float, now: float) -> float:
        """Counts a request unless it exceeds the rate: then returns the seconds until it may be
        made, else 0."""
        room_seconds = self._burst_seconds - 1.0 / rate
        ahead_seconds = self._used_until.get(caller, now) - now
        if ahead_seconds > room_seconds + _ROUNDING_SECONDS:
            return ahead_seconds - room_seconds
        self.count(caller, rate, now)
        return 0.0

    def give_back(self, caller: Hashable, rate: float) -> None:
        """Takes back a request that was counted."""
        if caller in self._used_until:
            self._used_until[caller] -= 1.0 / rate

    def ahead_seconds(self, caller: Hashable, now: float) -> float:
        """Seconds' worth of requests that the caller has used ahead."""
        return max(self._used_until.get(caller, now) - now, 0.0)

    def clear(self) -> None:
        """Forgets all callers."""
        self._used_until.clear()

    def _forget(self, now: float) -> None:
        """Drops who has used nothing ahead, or else everybody: memory is bounded."""
        self._used_until = {
            caller: until for caller, until in self._used_until.items() if until > now
        }
        if len(self._used_until) >= CALLERS_MAX:
            self._used_until.clear()


def wrong_key_delay_seconds(ahead_seconds: float, rate: float) -> float:
    """Seconds for which the answer to a wrong key waits: none for the first one of an address, and
    two for the last that is looked up. `ahead_seconds` are used by its wrong keys with this one."""
    return WRONG_KEY_DELAY_SHARE * max(ahead_seconds - 1.0 / rate, 0.0)


def network_of(host: str) -> str:
    """The address by which wrong keys are counted: one customer has a whole network of IPv6."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(int(address) >> _NETWORK_BITS)
    return host
