"""Refuses requests beyond the rate of their key or tenant, and wrong keys beyond that of their
address. Other callers are answered meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter

from tickwork.core.access import Caller
from tickwork.core.request_rate import (
    REFUSED_METRIC,
    WRONG_KEYS_BURST_SECONDS,
    Rates,
    RequestRates,
    network_of,
)
from tickwork.errors import RateExceeded

KNOWN_SECONDS = 600.0
"""Seconds for which a key that was right is not refused for the wrong keys of its address."""

KNOWN_KEYS_MAX = 20_000


class _Limit(NamedTuple):
    """The rate of those who share a bucket: its name, who they are, and what else they can do."""

    name: str
    bucket: Hashable
    rate: float
    who: str
    advice: str = ""


class RequestGate:
    """Counts the requests of one process."""

    def __init__(
        self, rates: RequestRates, monotonic: Callable[[], float], registry: CollectorRegistry
    ) -> None:
        self._rates, self._monotonic = rates, monotonic
        self._callers, self._wrong = Rates(), Rates(WRONG_KEYS_BURST_SECONDS)
        self._known: dict[str, float] = {}
        self._refused = Counter(
            REFUSED_METRIC, "Requests that were refused, by reason.", ["reason"], registry=registry
        )

    def clear(self) -> None:
        """Forgets what was counted, when a server starts."""
        self._callers.clear()
        self._wrong.clear()
        self._known.clear()

    def check(self, caller: Caller, quota: float | None = None) -> None:
        """Counts a request. Raises `RateExceeded` if its key, or its tenant, has made too many.
        `quota` are the requests a second of the tenant, if it has such a quota."""
        now = self._monotonic()
        limits = (self._key_limit(caller), self._tenant_limit(caller.tenant, quota))
        for limit in limits:
            wait_seconds = self._callers.wait_seconds(limit.bucket, now)
            if wait_seconds > 0:
                self._refused.labels("rate").inc()
                text = f"{limit.who} may make {limit.rate:g} requests a second of a process"
                fault = f"{text}; try again later{limit.advice}"
                raise RateExceeded(fault, limit.name, wait_seconds, limit.rate)
        for limit in limits:
            self._callers.count(limit.bucket, limit.rate, now)

    def _key_limit(self, caller: Caller) -> _Limit:
        bucket = (caller.tenant, caller.name)
        return _Limit("key_requests_per_second", bucket, self._rates.key_per_second, caller.name)

    def _tenant_limit(self, tenant: str, quota: float | None) -> _Limit:
        who = f"all keys of tenant {tenant} together"
        if quota is None:
            rate = self._rates.tenant_per_second
            return _Limit("tenant_requests_per_second", tenant, rate, who)
        advice = ", or raise the tenant's requests_per_second"
        return _Limit("requests_per_second", (tenant, "quota"), quota, who, advice)

    def check_address(self, host: str | None, credential: str | None) -> None:
        """Raises `RateExceeded` if too many wrong keys came from an address. A key that was right
        some minutes ago passes: others may share the address of its proxy."""
        if host is None or self._is_known(credential):
            return
        wait_seconds = self._wrong.wait_seconds(network_of(host), self._monotonic())
        if wait_seconds > 0:
            self._refused.labels("address").inc()
            fault = "you sent too many wrong keys from this address; try again later"
            rate = self._rates.wrong_keys_per_second
            raise RateExceeded(fault, "wrong_keys", wait_seconds, rate)

    def note_right(self, credential: str | None) -> None:
        """Remembers a key that was right."""
        if credential is not None:
            if len(self._known) >= KNOWN_KEYS_MAX:
                self._known.clear()
            self._known[credential] = self._monotonic()

    def note_wrong(self, host: str | None, credential: str | None) -> None:
        """Counts a wrong key. A request without one is no guess."""
        if credential is None:
            return
        self._known.pop(credential, None)
        self._refused.labels("wrong_key").inc()
        if host is not None:
            rate = self._rates.wrong_keys_per_second
            self._wrong.count(network_of(host), rate, self._monotonic())

    def _is_known(self, credential: str | None) -> bool:
        seen = self._known.get(credential or "")
        return credential is None or (seen is not None and self._monotonic() - seen < KNOWN_SECONDS)
